// Package persistence keeps the state of one node in one bbolt file. The file is
// opened for the length of one Update or View and never held open: the plugin
// runs once per pod, and a reader that stays would block every writer.
//
// A separate lock file is locked first, with a blocking flock and a bound on the
// wait: bbolt's own lock is polled every 50 ms, which is unfair and makes long
// tails when many pods start at once.
//
// These files, all in Options.Dir:
//
//	limpet.db      the state
//	limpet.lock    the lock, always empty
//	limpet.marker  says that a state was made here once
//
// A missing database beside a marker is a lost one, not a new node (rule 6). One that is
// lost or damaged is made again by the verb that finds it, out of what can be read of it
// and what Options.Rebuild knows; the damaged file stays as limpet.db.damaged-<time>. fsync
// is never switched off: an acknowledged verb survives a power loss (rule 5).
//
// The address index is a bitmap per 256 addresses, so that finding a free address
// costs one look-up per 256 held ones, and no verb scans the records.
package persistence
