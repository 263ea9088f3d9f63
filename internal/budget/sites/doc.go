// Package sites divides the units of one budget among sites: budgets in other namespaces and clusters.
//
// A site writes its own book alone, and reads what its peers show. For each group of sites that agree on a number it
// has a share (ledger.Share). These invariants hold whatever is lost, late, repeated or read from an old cache:
//
//   - The shares of one agreement never exceed what it divides: a unit is sent before it is taken, and both
//     numbers only grow.
//   - A site that closes, or loses its book, has another nonce from then on. No agreement has the former one again.
//   - An agreement opens when each site has given the former one up, and counts what is away by then.
//
// TestSearch walks at random through what sites, networks and books may do; TestSearchFindsMistakes shows which
// mistakes it finds. All functions are pure.
package sites
