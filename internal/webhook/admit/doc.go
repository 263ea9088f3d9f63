// Package admit answers for pods that are being created, in stages:
//
//	gather  the facts that all planners share are collected once
//	plan    each planner, in order, says what it adds to the pod
//	merge   the patches become one; a contradiction drops the later plan
//	commit  plans that take from a book are entered there
//
// Nothing is committed on a dry run or on a refusal. A pod has no UID while it is created,
// so that a book knows it by the UID of the request. A later stage of the API server may
// still refuse the pod; therefore every entry of a book expires.
package admit
