// Package cluster reads the cluster for reconcilers and webhooks.
//
// Most reads come from caches. Each feature declares as Needs what it reads there: the
// kinds, the parts of their objects, and the indexes. The caches keep the union of all
// needs and nothing else, so that memory grows only when a feature asks for more.
//
// Pods are stored packed: a pod takes 700 bytes with its index entries in place of 3500. A list, a
// read or an event unpacks it. Packing loses nothing, so that no reader and no handler knows of it.
// The pods that were used last are also held unpacked.
//
// The readers here return the cache's own objects, which callers must not change.
// Functions whose name begins with Live read past the cache. The cache
// lags behind: the type Writes says whether it already contains the last object that a
// controller wrote.
package cluster
