-- The mark of an attempt's processes, if it is not the attempt's id: an agent that was kept after an earlier turn keeps
-- the mark with which it was started. NULL: the attempt's id.
ALTER TABLE attempts ADD COLUMN mark TEXT;
