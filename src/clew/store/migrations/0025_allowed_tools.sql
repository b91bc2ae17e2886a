-- What a person has allowed for good in a thread, as a JSON list of rules; and the rule that a question would give.

-- JSON: [{"tool": "Bash", "kind": "command", "value": "npm test", "cwd": "/repo"}]. NULL: none.
ALTER TABLE threads ADD COLUMN tool_rules TEXT;

-- JSON, as above. NULL: the request can be allowed once, not for the whole thread.
ALTER TABLE questions ADD COLUMN tool_rule TEXT;
