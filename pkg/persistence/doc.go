// Package persistence keeps the state of one node. Each Update or View opens the files and closes them at the end, because the
// plugin runs once per pod. docs/design/0004-recovery.md says what must survive what, and how.
//
// The files in Options.Dir:
//
//	limpet.db, limpet.db.2                two folds, in bbolt's format
//	limpet.journal, limpet.journal.last   the commits since each fold
//	limpet.lock                           the lock: a blocking flock with a bound on the wait; bbolt would poll
//	limpet.marker                         shows that this node has had a state; written after the first state
//	.pending/                             one file for each ADD that waits for the lock (internal/cni)
//
// If limpet.marker exists and the journal does not, the state was lost (rule 6). The verb that finds a lost or damaged state
// rebuilds it, from what can be read of it and what Options.Rebuild knows; the damaged files stay as *.damaged-<time>.
//
// The address index has one bitmap for each block of 256 addresses. The search for a free address makes one look-up
// for every 256 held addresses. An everyday ADD or DEL scans no records.
//
// The package offers typed readers and writers in Tx, and decides nothing: pkg/reservation plans what to write.
package persistence
