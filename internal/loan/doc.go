// Package loan decides which node may hand out an address that follows its pod from node to node.
//
// An address belongs to its home, the node whose ranges have it. When home cannot take the pod, home lends the address, and
// another node, the borrower, has the pod as a guest. Two kinds of facts say who may hand out the address:
//
//   - the Loan, an object of the API server, which changes by compare-and-set;
//   - the Record of each node in its state file, which the plugin reads, and which survives everything.
//
// PlanNode is what the agent of a node does next, PlanPlace what the controller does next, and PlanFollowing of
// pkg/reservation what an ADD does.
// Each decision is one step, and a crash may come between any two. These invariants hold at each moment:
//
//   - Home hands out the address to no pod while its Record says that it is lent.
//   - The Record of home says "lent" before the Loan does, and until the Loan says that it has ended.
//   - The Loan names the borrower before the Record of the borrower does, and as long as that does.
//   - A node that was away (it restarted) hands out such an address only once its agent has read the Loan.
//   - Only home ends a Loan; a node that is proven dead counts as having answered. The controller ends one whose home is
//     gone or has another range, and removes one whose home never had the address.
//
// TestSearch and TestWalks run these functions against crashes, partitions, late writes and caches that are behind;
// TestMistakesAreFound shows which mistakes they find.
package loan
