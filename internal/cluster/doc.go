// Package cluster reads the cluster for reconcilers and webhooks.
//
// Most reads come from caches. Each feature declares as Needs what it reads there: the
// kinds, the parts of their objects, and the indexes. The caches keep the union of all
// needs and nothing else, so that memory grows only when a feature asks for more.
//
// The readers here return the cache's own objects, which callers must not change.
// Functions whose name begins with Live read past the cache. The cache
// lags behind: the type Writes says whether it already contains the last object that a
// controller wrote.
package cluster
