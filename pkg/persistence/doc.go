// Package persistence keeps the state of one node in one bbolt file. Each Update or View opens the file and closes it at
// the end, because the plugin runs once per pod, and because an open reader would block every writer.
//
// A separate lock file is locked first, with a blocking flock and a bound on the wait. bbolt polls its own lock every
// 50 ms, which is unfair and makes long tails when many pods start at once.
//
// The files in Options.Dir:
//
//	limpet.db      the state
//	limpet.lock    the lock, always empty
//	limpet.marker  shows that this node has had a state; written after the first state
//	.pending/      one file for each ADD that waits for the lock (internal/cni)
//
// If limpet.marker exists and limpet.db does not, the state was lost (rule 6). The verb that finds a lost or damaged state
// rebuilds it, from what can be read of it and what Options.Rebuild knows; the damaged file stays as
// limpet.db.damaged-<time>. fsync is never switched off: an acknowledged verb survives a power loss (rule 5).
//
// The address index has one bitmap for each block of 256 addresses. The search for a free address makes one look-up
// for every 256 held addresses. An everyday ADD or DEL scans no records.
//
// The package offers typed readers and writers in Tx, and decides nothing: pkg/reservation plans what to write.
package persistence
