// Package creation answers for pods that are being created. It is the place where features meet: the
// planner of pins says where a pod goes, and the planner of spreads, which is asked later, chooses a
// subset for that node or overrules it. Neither knows the other one. The stages are:
//
//	gather  the facts that all planners share are collected once
//	plan    each planner, in order, says what it adds to the pod
//	merge   the patches become one. If a later patch contradicts an earlier one, it is left
//	        out; but if the pod asks for a reservation, the whole pod is refused
//	commit  each plan is written into the book of its feature, if the feature has one, and may
//	        add to the pod what the book decided. An earlier plan that contradicts it is left out
//
// A book is a feature's list of pods that were allowed and may not exist in the API yet.
// Nothing is committed on a dry run or after a refusal. A pod has no UID before it is
// created, so the book uses the UID of the request. The API server may still refuse the
// pod later. Therefore every entry of a book expires.
package creation
