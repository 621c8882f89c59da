//! Prints `registry.toml` as the catalogue has it: `make packfinderz-registry`.

fn main() -> anyhow::Result<()> {
    print!(
        "{}",
        example_packfinderz::registry::Registry::of_catalogue().to_toml()?
    );
    Ok(())
}
