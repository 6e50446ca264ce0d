-- The tables of a store of version 1 as PostgreSQL has them; the rows are those of version_1.sql.

CREATE TABLE arenas (
    number SERIAL NOT NULL,
    id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    created FLOAT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (number),
    UNIQUE (fingerprint)
);

CREATE TABLE blobs (
    hash BYTEA NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (hash)
);

COMMENT ON TABLE blobs IS 'Long texts, each once, by content hash: passages, prompts, replies.';

CREATE TABLE calls (
    key BYTEA NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    at FLOAT NOT NULL,
    seconds FLOAT NOT NULL,
    request BYTEA NOT NULL,
    response BYTEA NOT NULL,
    PRIMARY KEY (key)
);

COMMENT ON TABLE calls IS 'The journal. It only adds.';

CREATE TABLE meta (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE questions (
    set TEXT NOT NULL,
    position INTEGER NOT NULL,
    question_id TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (set, position)
);

COMMENT ON TABLE questions IS 'Questions and golds as they were when a run answered them.';

CREATE TABLE runs (
    number SERIAL NOT NULL,
    id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    created FLOAT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (number),
    UNIQUE (id)
);

CREATE INDEX ix_runs_fingerprint ON runs (fingerprint);

CREATE TABLE attempts (
    run INTEGER NOT NULL,
    question_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    input INTEGER,
    output INTEGER,
    cached INTEGER,
    reasoning INTEGER,
    spent FLOAT,
    cold FLOAT,
    seconds FLOAT NOT NULL,
    at FLOAT NOT NULL,
    calls INTEGER NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (run, question_id, epoch),
    FOREIGN KEY(run) REFERENCES runs (number) ON DELETE CASCADE
);

COMMENT ON COLUMN attempts.body IS 'final text and events';

CREATE TABLE judgements (
    arena INTEGER NOT NULL,
    judge INTEGER NOT NULL,
    question_id TEXT NOT NULL,
    first INTEGER NOT NULL,
    second INTEGER NOT NULL,
    part INTEGER NOT NULL,
    number INTEGER NOT NULL,
    outcomes TEXT NOT NULL,
    how TEXT NOT NULL,
    calls INTEGER NOT NULL,
    input INTEGER,
    output INTEGER,
    spent FLOAT,
    cold FLOAT,
    body BYTEA NOT NULL,
    PRIMARY KEY (arena, judge, question_id, first, second, part),
    FOREIGN KEY(arena) REFERENCES arenas (number) ON DELETE CASCADE
);

COMMENT ON COLUMN judgements.judge IS 'place among the arena''s judges';

COMMENT ON COLUMN judgements."first" IS 'system shown first: place among the arena''s systems';

COMMENT ON COLUMN judgements.part IS 'which of the arena''s calls for a pair';

COMMENT ON COLUMN judgements."number" IS 'the match''s place in the order of play';

COMMENT ON COLUMN judgements.outcomes IS 'a letter an axis: 1 2 = ? (unparsable) ! (call failed)';

COMMENT ON COLUMN judgements.how IS 'asked, cut, empty or identical';

COMMENT ON COLUMN judgements.body IS 'reasons and calls';

CREATE TABLE scores (
    run INTEGER NOT NULL,
    protocol TEXT NOT NULL,
    question_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    value FLOAT,
    reading TEXT NOT NULL,
    prediction TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (run, protocol, question_id, epoch),
    FOREIGN KEY(run) REFERENCES runs (number) ON DELETE CASCADE
);

CREATE TABLE votes (
    arena INTEGER NOT NULL,
    voter TEXT NOT NULL,
    question_id TEXT NOT NULL,
    first INTEGER NOT NULL,
    second INTEGER NOT NULL,
    axis TEXT NOT NULL,
    outcome TEXT NOT NULL,
    at FLOAT NOT NULL,
    PRIMARY KEY (arena, voter, question_id, first, second, axis),
    FOREIGN KEY(arena) REFERENCES arenas (number) ON DELETE CASCADE
);

COMMENT ON TABLE votes IS 'Human votes, cast in the terminal or read from a file.';

COMMENT ON COLUMN votes."first" IS 'the smaller place among the arena''s systems';

COMMENT ON COLUMN votes.outcome IS 'first, second, tie or skip';
