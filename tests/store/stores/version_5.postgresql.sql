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

CREATE TABLE calls (
	key BYTEA NOT NULL, 
	kind TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	at FLOAT NOT NULL, 
	seconds FLOAT NOT NULL, 
	request BYTEA NOT NULL, 
	response BYTEA NOT NULL, 
	payer BYTEA, 
	PRIMARY KEY (key)
);

CREATE TABLE leases (
	run TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	host TEXT NOT NULL, 
	machine TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	started TEXT NOT NULL, 
	beat INTEGER NOT NULL, 
	PRIMARY KEY (run)
);

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

CREATE TABLE runs (
	number SERIAL NOT NULL, 
	id TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	created FLOAT NOT NULL, 
	body BYTEA NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);

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

CREATE TABLE gradings (
	run INTEGER NOT NULL, 
	key BYTEA NOT NULL, 
	body BYTEA, 
	PRIMARY KEY (run, key), 
	FOREIGN KEY(run) REFERENCES runs (number) ON DELETE CASCADE
);

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

CREATE TABLE stoppings (
	run INTEGER NOT NULL, 
	claim TEXT NOT NULL, 
	seed TEXT NOT NULL, 
	body BYTEA NOT NULL, 
	PRIMARY KEY (run, claim, seed), 
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
