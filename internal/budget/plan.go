package budget

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// commit is how long the API server may take from the admission of a request to its write.
const commit = 34 * time.Second

// retry is how long after a refusal a request by the same user for the same name is taken
// for a repetition. kubectl drain asks every 5 s.
const retry = 30 * time.Second

// Plan decides about one request for one pod. The pod may go if all budgets let it go; a
// refusal names every budget that refuses.
func Plan(in Input) Decision {
	switch {
	case in.Vector == None:
		return Decision{Verdict: Allowed, Reason: ReasonUnprotected}
	case in.Pod.Finished:
		return Decision{Verdict: Allowed, Reason: ReasonNotAvailable}
	}
	if in.stale() { // before any other refusal, which the book would remember for the new pod
		return Decision{Verdict: Refused, Reason: ReasonStale, Message: staleMessage(in)}
	}
	in.Budgets = Local(in.Budgets, in.Book)
	judged, accounted := in.split()
	if d, refused := planPDBs(in); refused {
		d.Blocked = slices.ContainsFunc(in.Budgets, overSites) && (!slices.ContainsFunc(in.Budgets, in.hasChild) || in.blocked(in.blocks(judged)))
		return d
	}
	if len(judged) == 0 {
		return in.account(accounted)
	}
	if blocks := in.blocks(judged); len(blocks) > 0 {
		return in.refuse(blocks)
	}
	reason := ReasonUnits
	if !in.Pod.Serving {
		reason = ReasonNotAvailable
	}
	return in.take(Allowed, reason)
}

// Local returns the budgets with what they may do here: in the place of a budget with federation one for each of its
// shares in the book, with the number of the share. A number that changes with decisions must be read with them.
func Local(all []Budget, book ledger.Book) []Budget {
	var out []Budget
	for _, b := range all {
		if b.Sites == nil {
			if len(ledger.SharesOf(book, b.Name, b.UID)) > 0 { // the cache of this replica is old, or that of the leader
				b.Closed = "this replica does not know its peers yet"
			}
			out = append(out, b)
			continue
		}
		shares := ledger.SharesOf(book, b.Name, b.UID)
		if len(shares) == 0 || shares[0].Spec != b.Sites.Spec.Hash() {
			b.Closed = b.Sites.Disagreement(b.Expected)
			out = append(out, b)
		}
		for _, s := range shares {
			out = append(out, b.local(s, len(shares) > 1))
		}
	}
	return out
}

// take lets the pod go, with an entry in the book that makes it unavailable at once. A pod
// that is not Ready gets an entry too: it may become Ready before the API server deletes it,
// and another decision would count on it. Only what no budget refuses passes a full book.
func (in *Input) take(v Verdict, reason Reason) Decision {
	if e, ok := in.living(); ok {
		return in.furtherCall(e)
	}
	return Decision{Verdict: v, Reason: reason, Take: in.hasRoom()}
}

// furtherCall answers a further call for a pod that has an entry. The call was judged like the first one,
// without the pod itself: an entry is no pass for a later request, because another pod may have been
// lost meanwhile. One DELETE makes several calls, which need no write. All other requests renew the
// entry that they rely on: it would else end before their write, with a change that another one made,
// or when it is given back because the first request failed. Only an entry of a pod that did not
// serve, or of Limpet's own deletion, is given back to the same user.
func (in *Input) furtherCall(e ledger.Entry) Decision {
	changes := e.Use == ledger.Gone && in.Vector.changes() || e.Use.InPlace() && (!in.Vector.changes() || in.Version != e.Version)
	shared := e.By != user(in.By) || in.Vector == Limpet || !in.Pod.Serving || in.Version != e.Version
	return Decision{Verdict: Allowed, Reason: ReasonTaken, Take: changes || shared || e.Expires.Sub(in.Now) < commit}
}

// living is the entry of the pod that holds its unit.
func (in *Input) living() (ledger.Entry, bool) {
	e, ok := in.Book.Entries[in.Pod.UID]
	return e, ok && e.Holds(in.Now)
}

// stale reports whether the eviction is meant for a pod that is gone: the same user was
// refused a moment ago for another pod of this name, and still repeats the request. A
// request that names a UID says itself for which pod it is meant.
func (in *Input) stale() bool {
	if in.Vector != Evict {
		return false
	}
	if in.ForUID != "" {
		return in.ForUID != in.Pod.UID
	}
	return slices.ContainsFunc(in.Book.Waiting, func(w ledger.Waiting) bool {
		return w.Pod == in.Pod.Name && w.By == user(in.By) && w.UID != in.Pod.UID && in.Now.Sub(w.Last) <= retry
	})
}

// split parts the budgets that may refuse from those that account for the pod alone.
func (in *Input) split() (judged, accounted []*Budget) {
	for i := range in.Budgets {
		b := &in.Budgets[i]
		if in.Vector == Leave && !b.Leaves {
			continue // the budget keeps the pod
		}
		if b.Judges(in.Vector) || b.Leaves && b.Judges(Leave) {
			judged = append(judged, b)
			continue
		}
		accounted = append(accounted, b)
	}
	return judged, accounted
}

// Judges reports whether the budget may refuse a vector.
func (b *Budget) Judges(v Vector) bool {
	return !b.Exempt && b.Rules.policy(v) == Check && b.Rules.protects(v)
}

// account lets a pod go that no budget judges.
func (in *Input) account(budgets []*Budget) Decision {
	switch {
	case len(budgets) == 0 && in.OutOfServiceFirst:
		return in.take(Allowed, ReasonUnits)
	case len(budgets) == 0:
		return Decision{Verdict: Allowed, Reason: ReasonUnprotected}
	}
	reason := ReasonUnprotected
	for _, b := range budgets {
		if !b.Exempt && b.Rules.policy(in.Vector) == Allow {
			reason = ReasonPolicy
		}
	}
	return in.take(Accounted, reason)
}

// hasRoom reports whether the book can take a further pod.
func (in *Input) hasRoom() bool { return !ledger.Full(in.Book) }

// block is one refusal by one budget.
type block struct {
	budget *Budget
	reason Reason
}

// blocks are the refusals of all budgets, in an order that does not depend on theirs.
func (in *Input) blocks(judged []*Budget) []block {
	var out []block
	for _, b := range judged {
		if reason := in.judge(b); reason != "" {
			out = append(out, block{b, reason})
		}
	}
	slices.SortStableFunc(out, func(a, b block) int {
		return cmp.Or(slices.Index(Reasons, a.reason)-slices.Index(Reasons, b.reason), strings.Compare(a.budget.Name+"/"+a.budget.UID+a.budget.Group, b.budget.Name+"/"+b.budget.UID+b.budget.Group))
	})
	return out
}

// judge returns why a budget refuses; "" when it does not.
//
// A pod that serves may go while enough other pods are available. A pod that does not serve
// may always go, if the book has room. A pod that is Ready, but not for the stable time, is not counted as
// available, and yet must not go while the budget is short: after a loss of all pods every
// pod is such a pod. The same holds for a pod that runs and does not serve, where the budget asks
// for that: the pods of dead nodes may be the last that have the data.
func (in *Input) judge(b *Budget) Reason {
	serving := in.Pod.Serving || b.Rules.ProtectUnready && !in.Pod.Pending
	desired, known := b.desired()
	if in.Vector == ScaleIn && b.Unknown == "" && b.Sites.wantLess(b.Expected) {
		desired = min(desired, b.Expected) // a workload that wants fewer pods than minAvailable says
	}
	open := b.Sites == nil && (known && desired == 0 || !known && in.Vector == Teardown)
	switch {
	case serving && b.Closed != "" && !b.needsNone(in):
		return ReasonPeers
	case serving && !known && !open:
		return ReasonUnknownSize
	case serving && !open && b.available(in.Book, in.Now, in.Pod.UID) < desired:
		return ReasonExhausted
	case b.Rules.KeepPlace && in.losesPlace() != "":
		return in.losesPlace()
	case !open && !in.hasRoom() && !inUse(in.Book, in.Pod.UID, in.Now):
		return ReasonFull
	}
	return ""
}

// losesPlace is why the rebuilt pod would not get its place; "" when it would, and for a pod
// that stays or is not rebuilt.
func (in *Input) losesPlace() Reason {
	switch {
	case !in.Place.Asked || in.Vector.changes() || in.Vector == ScaleIn || in.Vector == Teardown:
		return ""
	case in.Place.Address != "":
		return ReasonAddress
	case in.Place.Node != "":
		return ReasonNode
	}
	return ""
}

// refuse names every budget that refuses.
func (in *Input) refuse(blocks []block) Decision {
	d := Decision{Verdict: Refused, Reason: blocks[0].reason, Message: refusal(in, blocks), Blocked: in.blocked(blocks)}
	for _, b := range blocks {
		d.Blocking = append(d.Blocking, b.budget.blocking())
	}
	slices.Sort(d.Blocking)
	return d
}

// DesiredOf returns how many pods must stay available. Percentages are rounded up, as by a
// PodDisruptionBudget: 25% of ten pods are three that may be unavailable. It returns false
// when the answer needs the size and the size is not known, or the budget sets no number.
func DesiredOf(maxUnavailable, minAvailable *intstr.IntOrString, size int32, known bool) (int32, bool) {
	switch {
	case minAvailable != nil && minAvailable.Type == intstr.Int:
		return max(minAvailable.IntVal, 0), true
	case minAvailable != nil:
		n, ok := scaled(*minAvailable, size)
		return n, ok && (known || isZero(*minAvailable))
	case maxUnavailable != nil:
		n, ok := scaled(*maxUnavailable, size)
		return max(size-n, 0), ok && (known || isAll(*maxUnavailable))
	}
	return math.MaxInt32, false
}

// isZero and isAll are percentages whose result is the same for every size.
func isZero(v intstr.IntOrString) bool { return v.StrVal == "0%" }
func isAll(v intstr.IntOrString) bool  { return v.Type == intstr.String && v.StrVal == "100%" }

// scaled is a number, or a percentage of a size, never below 0.
func scaled(v intstr.IntOrString, size int32) (int32, bool) {
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, int(size), true)
	if err != nil {
		return 0, false
	}
	return int32(min(max(n, 0), math.MaxInt32)), true
}

// desired is DesiredOf for a budget.
func (b *Budget) desired() (int32, bool) {
	return DesiredOf(b.MaxUnavailable, b.MinAvailable, b.Expected, b.Unknown == "")
}

// Loose is how many pods the budget lets go one after the other: with each pod that no workload makes
// again, the size gets smaller. A number that does not depend on the size keeps them.
func (b *Budget) Loose() int {
	if _, fixed := DesiredOf(b.MaxUnavailable, b.MinAvailable, 0, false); fixed || b.letsNoneGo() {
		return 0
	}
	return b.Bare
}

// letsNoneGo reports whether all pods of the budget must stay, whatever the size.
func (b *Budget) letsNoneGo() bool {
	if b.MinAvailable != nil {
		return isAll(*b.MinAvailable)
	}
	return b.MaxUnavailable != nil && (isZero(*b.MaxUnavailable) || *b.MaxUnavailable == intstr.FromInt32(0))
}

// Count returns the numbers that the budget shows. A pod of which the book has a living entry
// is not available.
func Count(b Budget, book ledger.Book, now time.Time) Numbers {
	n := Numbers{Total: b.Expected, Current: b.available(book, now, ""), Unknown: b.Unknown}
	desired, known := b.desired()
	if b.Unknown != "" {
		n.Total = int32(len(b.Pods))
	}
	if !known || b.Closed != "" {
		n.Desired = n.Total
		return n
	}
	n.Desired = desired
	n.Allowed = max(n.Current-desired, 0)
	if b.MaxUnavailable != nil {
		most, _ := scaled(*b.MaxUnavailable, b.Expected)
		n.Allowed = min(n.Allowed, most)
	}
	return n
}

// available counts the available pods, without the pod of one UID.
func (b *Budget) available(book ledger.Book, now time.Time, without string) int32 {
	n := int32(0)
	for i := range b.Pods {
		if p := &b.Pods[i]; p.UID != without && b.counts(p) && !inUse(book, p.UID, now) {
			n++
		}
	}
	return n
}

// counts reports whether a pod is available for this budget, as far as the book has no entry.
func (b *Budget) counts(p *Pod) bool {
	return p.Available && !p.Finished && (!b.Rules.KeepPlace || !p.Displaced)
}

// inUse reports whether the book has an entry of the pod that holds its unit.
func inUse(book ledger.Book, uid string, now time.Time) bool {
	e, ok := book.Entries[uid]
	return ok && e.Holds(now)
}
