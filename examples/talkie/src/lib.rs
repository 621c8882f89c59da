//! The talkie system on Postrider.
