//! Names of tables and columns that come from a config. Checked once, quoted always, never
//! spliced raw.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A column, table or schema name: 1 to 63 bytes, no control characters. Any other character is
/// allowed, quotes and semicolons too, because [`Identifier::quoted`] makes them harmless.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Identifier(String);

impl Identifier {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in SQL: in double quotes, quotes doubled.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }
}

impl TryFrom<String> for Identifier {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.len() > 63 {
            return Err(format!(
                "`{}` is not a name: 1 to 63 bytes are allowed",
                name.escape_debug()
            ));
        }
        if name.chars().any(char::is_control) {
            return Err(format!(
                "`{}` is not a name: it has a control character",
                name.escape_debug()
            ));
        }
        Ok(Self(name))
    }
}

impl From<Identifier> for String {
    fn from(name: Identifier) -> Self {
        name.0
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `table` or `schema.table`. Without a schema the connection's search path decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableName {
    pub schema: Option<Identifier>,
    pub name: Identifier,
}

impl TableName {
    pub fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.quoted(), self.name.quoted()),
            None => self.name.quoted(),
        }
    }

    /// Another table beside this one, in the same schema.
    #[must_use]
    pub fn sibling(&self, name: Identifier) -> Self {
        Self {
            schema: self.schema.clone(),
            name,
        }
    }
}

impl TryFrom<String> for TableName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.split_once('.') {
            Some((schema, table)) => Ok(Self {
                schema: Some(schema.to_owned().try_into()?),
                name: table.to_owned().try_into()?,
            }),
            None => Ok(Self {
                schema: None,
                name: name.try_into()?,
            }),
        }
    }
}

impl From<TableName> for String {
    fn from(table: TableName) -> Self {
        table.to_string()
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => self.name.fmt(f),
        }
    }
}
