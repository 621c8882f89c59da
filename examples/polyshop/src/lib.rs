//! The polyshop system on Postrider.
