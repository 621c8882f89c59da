//! The gopipe system on Postrider.
