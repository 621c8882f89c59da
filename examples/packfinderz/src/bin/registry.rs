//! Prints `registry.toml` as the catalogue has it, or with the argument `routes` the routes of
//! `relay.toml`: `make packfinderz-registry`.

use example_packfinderz::registry::Registry;

fn main() -> anyhow::Result<()> {
    let registry = Registry::of_catalogue();
    let text = match std::env::args().nth(1).as_deref() {
        None => registry.to_toml()?,
        Some("routes") => registry.to_routes()?,
        Some(other) => anyhow::bail!("usage: registry [routes], not {other}"),
    };
    print!("{text}");
    Ok(())
}
