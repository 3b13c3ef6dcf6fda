//! The fold, the orders and the planner against plain models; named cases from real bug reports.

mod cases;
mod faults;
mod feed;
mod model;
mod storm;
