//! The fold, the orders and the planner against plain models; named cases from real bug reports.

mod cases;
mod clients;
mod faults;
mod feed;
mod model;
mod nodes;
mod oracle;
mod storm;
