// Package reconcile asks the homes of addresses to lend them, names the nodes that borrow them, and opens the gates of the
// pods that wait for that.
package reconcile
