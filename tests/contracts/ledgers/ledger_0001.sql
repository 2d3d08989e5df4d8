-- A ledger as the first migration's code left it in SQLite: one memory changed and applied, a second one interrupted.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE counters (
	name TEXT NOT NULL, 
	value BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "counters" VALUES('change',3);
INSERT INTO "counters" VALUES('episode',2);
INSERT INTO "counters" VALUES('ticket',0);
CREATE TABLE episodes (
	id TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	add_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	role TEXT NOT NULL, 
	name TEXT, 
	content TEXT NOT NULL, 
	message_id TEXT, 
	told_at TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	user_id TEXT, 
	agent_id TEXT, 
	run_id TEXT, 
	project_id TEXT, 
	team_id TEXT, 
	room_id TEXT, 
	world_id TEXT, 
	hidden INTEGER NOT NULL, 
	pending INTEGER NOT NULL, 
	batch_id TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "episodes" VALUES('e1',1,'add-1',0,'user',NULL,'I like tea',NULL,'2026-03-01T09:00:00.000000+00:00','2026-03-01T09:00:00.000000+00:00','ann',NULL,NULL,NULL,NULL,NULL,NULL,0,0,'batch-1');
INSERT INTO "episodes" VALUES('e3',2,'add-1',0,'user',NULL,'wait',NULL,'2026-03-01T09:00:09.000000+00:00','2026-03-01T09:00:00.000000+00:00','ann',NULL,NULL,NULL,NULL,NULL,NULL,0,0,'batch-3');
CREATE TABLE fingerprints (
	fingerprint TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY (fingerprint, scope)
);
INSERT INTO "fingerprints" VALUES('f1','{"user_id":"ann"}','2026-03-01T09:00:00.000000+00:00');
CREATE TABLE idempotency (
	"key" TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	value TEXT NOT NULL, 
	batch_id TEXT, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY ("key", scope)
);
INSERT INTO "idempotency" VALUES('key','{"user_id":"ann"}','answer','batch-1','2026-03-01T09:00:00.000000+00:00');
CREATE TABLE journal (
	sequence INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	batch_id TEXT NOT NULL, 
	memory_id TEXT NOT NULL, 
	store_identity TEXT NOT NULL, 
	collection TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	boot_id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	change TEXT NOT NULL, 
	vector BLOB, 
	keep_vector BLOB, 
	created_at TEXT NOT NULL, 
	user_id TEXT, 
	agent_id TEXT, 
	run_id TEXT, 
	project_id TEXT, 
	team_id TEXT, 
	room_id TEXT, 
	world_id TEXT, 
	PRIMARY KEY (sequence)
);
INSERT INTO "journal" VALUES(2,'10000000-0000-4000-8000-000000000002','batch-2','00000000-0000-4000-8000-000000000001','store-1','memories','81624005-6f01-47b9-9ec1-1711de487c95','00000000-0000-0000-0000-0000000b0071','applied','{"id":"10000000-0000-4000-8000-000000000002","event":"UPDATE","memory_id":"00000000-0000-4000-8000-000000000001","at":"2026-03-01T09:00:05.000000+00:00","told_at":"2026-03-01T09:00:05.000000+00:00","actor":"add","reason":"","confidence":1.0,"undoes":null,"sources":[],"hides":[],"before":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000001","memory":"User likes tea","hash":"23b322a91f91af2d2f248fffeb1fc532","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"live","version":1},"after":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000001","memory":"User likes coffee","hash":"f6e56b290360de164ee579495d9ab5fc","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"live","version":1},"keep":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000002","memory":"User likes tea","hash":"23b322a91f91af2d2f248fffeb1fc532","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"version","version":1,"version_of":"00000000-0000-4000-8000-000000000001"}}',X'000000002549123E2549923EB76DDB3E2549123F6EDB363FB76D5B3F0000803F',X'00000080254912BE254992BEB76DDBBE254912BF6EDB36BFB76D5BBF000080BF','2026-03-01T09:00:00.000000+00:00','ann',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "journal" VALUES(3,'10000000-0000-4000-8000-000000000003','batch-3','00000000-0000-4000-8000-000000000003','store-1','memories','81624005-6f01-47b9-9ec1-1711de487c95','00000000-0000-0000-0000-0000000b0071','written','{"id":"10000000-0000-4000-8000-000000000003","event":"ADD","memory_id":"00000000-0000-4000-8000-000000000003","at":"2026-03-01T09:00:09.000000+00:00","told_at":"2026-03-01T09:00:09.000000+00:00","actor":"add","reason":"","confidence":1.0,"undoes":null,"sources":[],"hides":[],"after":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000003","memory":"User was interrupted","hash":"198f60a92ff3285eb9c9782f233967a8","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"live","version":1}}',X'000000002549123E2549923EB76DDB3E2549123F6EDB363FB76D5B3F0000803F',NULL,'2026-03-01T09:00:00.000000+00:00','ann',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE marks (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE memory_history (
	id TEXT NOT NULL, 
	memory_id TEXT NOT NULL, 
	event TEXT NOT NULL, 
	old_value TEXT, 
	new_value TEXT, 
	timestamp TEXT NOT NULL, 
	is_deleted INTEGER DEFAULT 0, 
	user_id TEXT, 
	agent_id TEXT, 
	run_id TEXT, 
	project_id TEXT, 
	team_id TEXT, 
	room_id TEXT, 
	world_id TEXT, 
	seq BIGINT NOT NULL, 
	actor TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	confidence FLOAT NOT NULL, 
	told_at TEXT, 
	undoes TEXT, 
	batch TEXT, 
	lineage_id TEXT, 
	erased INTEGER DEFAULT 0 NOT NULL, 
	change TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "memory_history" VALUES('10000000-0000-4000-8000-000000000001','00000000-0000-4000-8000-000000000001','ADD',NULL,'User likes tea','2026-03-01T09:00:00.000000+00:00',0,'ann',NULL,NULL,NULL,NULL,NULL,NULL,1,'add','',1.0,'2026-03-01T09:00:00.000000+00:00',NULL,'batch-1',NULL,0,'{"id":"10000000-0000-4000-8000-000000000001","event":"ADD","memory_id":"00000000-0000-4000-8000-000000000001","at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","actor":"add","reason":"","confidence":1.0,"undoes":null,"sources":[],"hides":[],"after":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000001","memory":"User likes tea","hash":"23b322a91f91af2d2f248fffeb1fc532","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"live","version":1}}');
INSERT INTO "memory_history" VALUES('10000000-0000-4000-8000-000000000002','00000000-0000-4000-8000-000000000001','UPDATE','User likes tea','User likes coffee','2026-03-01T09:00:05.000000+00:00',0,'ann',NULL,NULL,NULL,NULL,NULL,NULL,2,'add','',1.0,'2026-03-01T09:00:05.000000+00:00',NULL,'batch-2',NULL,0,'{"id":"10000000-0000-4000-8000-000000000002","event":"UPDATE","memory_id":"00000000-0000-4000-8000-000000000001","at":"2026-03-01T09:00:05.000000+00:00","told_at":"2026-03-01T09:00:05.000000+00:00","actor":"add","reason":"","confidence":1.0,"undoes":null,"sources":[],"hides":[],"before":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000001","memory":"User likes tea","hash":"23b322a91f91af2d2f248fffeb1fc532","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"live","version":1},"after":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000001","memory":"User likes coffee","hash":"f6e56b290360de164ee579495d9ab5fc","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"live","version":1},"keep":{"user_id":"ann","id":"00000000-0000-4000-8000-000000000002","memory":"User likes tea","hash":"23b322a91f91af2d2f248fffeb1fc532","created_at":"2026-03-01T09:00:00.000000+00:00","updated_at":"2026-03-01T09:00:00.000000+00:00","told_at":"2026-03-01T09:00:00.000000+00:00","kind":"facts","role":"memory","type":"semantic","source":"conversation","importance":0.5,"access_count":0,"state":"version","version":1,"version_of":"00000000-0000-4000-8000-000000000001"}}');
CREATE TABLE responses (
	"key" TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	value TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY ("key", scope)
);
INSERT INTO "responses" VALUES('model','{"user_id":"ann"}','value','2026-03-01T09:00:00.000000+00:00');
CREATE TABLE scope_locks (
	ticket INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY (ticket)
);
CREATE INDEX idx_history_memory_id ON memory_history (memory_id);
CREATE INDEX idx_history_user_id ON memory_history (user_id, seq) WHERE user_id IS NOT NULL;
CREATE INDEX idx_history_world_id ON memory_history (world_id, seq) WHERE world_id IS NOT NULL;
CREATE INDEX idx_history_room_id ON memory_history (room_id, seq) WHERE room_id IS NOT NULL;
CREATE INDEX idx_history_agent_id ON memory_history (agent_id, seq) WHERE agent_id IS NOT NULL;
CREATE INDEX idx_history_team_id ON memory_history (team_id, seq) WHERE team_id IS NOT NULL;
CREATE UNIQUE INDEX idx_history_seq ON memory_history (seq);
CREATE INDEX idx_history_project_id ON memory_history (project_id, seq) WHERE project_id IS NOT NULL;
CREATE INDEX idx_history_run_id ON memory_history (run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX idx_history_timestamp ON memory_history (timestamp);
CREATE INDEX idx_history_lineage_id ON memory_history (lineage_id) WHERE lineage_id IS NOT NULL;
CREATE INDEX idx_journal_memory_id ON journal (memory_id);
CREATE INDEX idx_journal_batch_id ON journal (batch_id);
CREATE INDEX idx_journal_written ON journal (store_identity) WHERE state = 'written';
CREATE INDEX idx_episodes_run_id ON episodes (run_id, told_at, seq) WHERE run_id IS NOT NULL;
CREATE INDEX idx_episodes_world_id ON episodes (world_id, told_at, seq) WHERE world_id IS NOT NULL;
CREATE INDEX idx_episodes_told_at ON episodes (told_at, seq);
CREATE INDEX idx_episodes_user_id ON episodes (user_id, told_at, seq) WHERE user_id IS NOT NULL;
CREATE INDEX idx_episodes_project_id ON episodes (project_id, told_at, seq) WHERE project_id IS NOT NULL;
CREATE INDEX idx_episodes_room_id ON episodes (room_id, told_at, seq) WHERE room_id IS NOT NULL;
CREATE INDEX idx_episodes_team_id ON episodes (team_id, told_at, seq) WHERE team_id IS NOT NULL;
CREATE INDEX idx_episodes_pending ON episodes (seq) WHERE pending = 1;
CREATE INDEX idx_episodes_batch_id ON episodes (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX idx_episodes_agent_id ON episodes (agent_id, told_at, seq) WHERE agent_id IS NOT NULL;
CREATE INDEX idx_idempotency_batch_id ON idempotency (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX idx_idempotency_created_at ON idempotency (created_at);
CREATE INDEX idx_responses_created_at ON responses (created_at);
CREATE INDEX idx_fingerprints_created_at ON fingerprints (created_at);
COMMIT;
