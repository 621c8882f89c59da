//! The packfinderz system on Postrider.
