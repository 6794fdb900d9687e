-- fits: 0.1.0
-- An order line can be in several open returns, as long as their units are at most the ordered ones. A submission, an
-- edit and a reopening count them under the lock of the order.
drop index return_lines_one_live;
