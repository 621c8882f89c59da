//! A look into Redis, from beside the code under test.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::services::services;

/// A handle on a server; each call makes its own connection.
#[derive(Debug, Clone)]
pub struct Redis {
    address: String,
}

impl Redis {
    /// The server that all tests share. Keep to keys under a [`fresh_prefix`].
    pub fn shared() -> Self {
        Self::at(services().redis_url.trim_start_matches("redis://"))
    }

    /// `host:port`
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The answer to a command as text: an error begins with `-`, nil is `None`.
    pub async fn command(&self, words: &[&str]) -> Option<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let stream = TcpStream::connect(&self.address).await.expect("Redis runs");
        let mut stream = BufReader::new(stream);
        stream.write_all(request.as_bytes()).await.expect("is sent");
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("an answer");
        let line = line.trim_end();
        let (kind, rest) = line.split_at(line.len().min(1));
        match kind {
            "$" if rest == "-1" => None,
            "$" => {
                let mut bytes = vec![0; rest.parse().expect("a length")];
                stream.read_exact(&mut bytes).await.expect("a value");
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            "-" => Some(line.to_owned()),
            _ => Some(rest.to_owned()),
        }
    }
}

/// Begins keys that no other test uses.
pub fn fresh_prefix() -> String {
    format!("test:{}:", uuid::Uuid::now_v7().simple())
}
