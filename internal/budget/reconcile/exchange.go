package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	// exchangeAgain is when to look again at peers that do not agree, or at a request that waits for a unit. A watch may
	// be dead.
	exchangeAgain = 5 * time.Second
	// exchangePause is the pause between two reconciles of a budget that divides units.
	exchangePause = 200 * time.Millisecond
	// keepsFor is how long an offer lasts. kubectl drain asks every 5 s.
	keepsFor = 10 * time.Second
	// keepsLonger is the same while a workload waits, which is woken after ten seconds of silence.
	keepsLonger = 2 * keepsFor
	// idleAfter is how long no pod goes and no request waits until units spread.
	idleAfter  = 10 * time.Minute
	nonceBytes = 20
	// longestProblem is what a status takes of the text of a peer.
	longestProblem = 512
)

// offer is a unit that lies at a site for a request that was refused before, and may not come again.
type offer struct {
	until  time.Time // zero for none
	passed time.Time // requests that did not come since then do not wait for a unit any more
}

// offered goes on with an offer, or begins one, or ends it.
func (s *situation) offered(last offer) offer {
	s.passed = last.passed
	unit := s.covered.Budget.Sites != nil && slices.ContainsFunc(budget.Local(s.groups, s.book), func(b budget.Budget) bool {
		return budget.Count(b, s.book, s.now).Allowed > 0
	})
	switch {
	case !unit || !s.waiting():
		last.until = time.Time{}
	case last.until.IsZero():
		last.until = s.now.Add(keepsFor)
		if slices.ContainsFunc(s.book.Waiting, func(w ledger.Waiting) bool { return w.ByWorkload && w.Waits(s.now) }) {
			last.until = s.now.Add(keepsLonger)
		}
	case !last.until.After(s.now):
		last = offer{passed: s.now}
	}
	s.passed = last.passed
	return last
}

// lastBusy is when a pod went or a request waited, if the last reconcile knew of a time; zero for never.
func (s *situation) lastBusy(last time.Time) time.Time {
	goes := func(p budget.Pod) bool { _, entered := s.book.Entries[p.UID]; return entered }
	if last.IsZero() || s.waiting() || slices.ContainsFunc(s.covered.Budget.Pods, goes) {
		last = s.now
	}
	s.idle = s.now.Sub(last) >= idleAfter
	return last
}

// gatherSites reads what the peers of a budget have shown.
func (r *Reconciler) gatherSites(ctx context.Context, s *situation) {
	s.covered.Budget.Sites = disruption.SitesOf(ctx, r.Peers.Cluster, r.Peers.Known, s.divided)
	for i := range s.groups {
		s.groups[i].Sites = s.covered.Budget.Sites
	}
}

// exchange takes the units that peers have sent, sends what they need, and agrees with them. Shares of a budget
// without federation are dropped.
func (r *Reconciler) exchange(ctx context.Context, s *situation) (ledger.Book, error) {
	if s.divided == nil {
		return s.book, nil
	}
	planned, changed := s.exchanged(s.book, rand.String(nonceBytes))
	if !changed {
		return s.book, r.child(ctx, s, s.limit(s.book), false)
	}
	limit := s.limit(planned).and(s.limit(s.book))
	if err := r.child(ctx, s, limit, true); err != nil || s.evicts && limit != s.limit(s.book) {
		return s.book, err // the next plan knows the pods that the child let go
	}
	all, err := budgetsOf(ctx, r.Client, s.pub.Namespace, client.UnsafeDisableDeepCopy)
	if err != nil {
		return s.book, err
	}
	exist := map[string]bool{}
	for i := range all {
		exist[string(all[i].UID)] = true
	}
	book, err := r.Books.Decide(ctx, books.OfBudgets(s.pub.Namespace), func(book ledger.Book) (ledger.Book, bool) {
		book.Shares = slices.DeleteFunc(slices.Clone(book.Shares), func(of ledger.Share) bool { return !exist[of.UID] })
		after, changed := s.exchanged(book, rand.String(nonceBytes))
		if s.hasChild() && limit.and(s.limit(after)) != limit {
			return book, false // the child lets more pods go: the next plan begins with this book
		}
		return after, changed
	})
	if err != nil {
		return book, fmt.Errorf("exchange units of %s in namespace %s: %w", budget.Title(s.pub.Name), s.pub.Namespace, err)
	}
	return book, r.child(ctx, s, s.limit(book), false)
}

// exchanged returns the book with the shares as they shall be.
func (s *situation) exchanged(book ledger.Book, nonce string) (ledger.Book, bool) {
	shares := ledger.SharesOf(book, s.pub.Name, string(s.pub.UID))
	groups, definite := s.siteGroups()
	if !definite { // what is at hand stays
		return book, false
	}
	var next []ledger.Share
	for i, g := range groups {
		next = append(next, sites.Plan(s.siteInput(book, g, s.shareOf(shares, g), fmt.Sprint(nonce, i))))
	}
	after, fits := ledger.PutShares(book, s.pub.Name, next)
	if !fits {
		s.problem, next = fmt.Sprintf("its peers are too many for the book of namespace %s: remove budgets with federation there, or peers of them", s.pub.Namespace), nil
	}
	if len(shares) == len(next) && (len(next) == 0 || reflect.DeepEqual(shares, next)) {
		return book, false
	}
	return after, true
}

// siteGroups returns the groups that the budget shares units in. They are not definite while a peer is not known.
func (s *situation) siteGroups() (groups []sites.Group, definite bool) {
	k := s.covered.Budget.Sites
	if k == nil {
		return nil, true
	}
	for _, heard := range k.Peers {
		if heard.Problem != "" && len(heard.Spec.Members) == 0 {
			s.problem = k.Disagreement(s.covered.Budget.Expected)
			return nil, false
		}
	}
	groups, s.problem = sites.GroupsOf(k.Self, k.Spec, s.covered.Budget.Expected, k.Peers)
	return groups, true
}

// shareOf is the share of a group, or one that begins.
func (s *situation) shareOf(shares []ledger.Share, g sites.Group) ledger.Share {
	spec := s.covered.Budget.Sites.Spec.Hash()
	if at := slices.IndexFunc(shares, func(of ledger.Share) bool { return of.Group == g.ID && of.Spec == spec }); at >= 0 {
		return shares[at]
	}
	return ledger.Share{Budget: s.pub.Name, UID: string(s.pub.UID), Spec: spec}
}

// siteInput is what the plan of a group needs to know.
func (s *situation) siteInput(book ledger.Book, g sites.Group, share ledger.Share, nonce string) sites.Input {
	whole := s.covered.Budget
	whole.Sites = nil
	n := budget.Count(whole, book, s.now)
	since, pod := s.waits(book)
	return sites.Input{
		Self: s.covered.Budget.Sites.Self, Group: g, Share: share, Used: max(n.Total-n.Current, 0), Has: n.Current,
		Certain: n.Unknown == "" && book.Knows(s.seen.Version), Since: since, Pod: pod,
		Peers: sites.ReportsOf(s.covered.Budget.Sites.Peers, g.ID), Fresh: nonce, Idle: s.idle,
	}
}

// waits returns when the oldest request for a pod of the budget was refused that may come again, as peers read it, and that
// pod: all sites must put requests in the same order.
func (s *situation) waits(book ledger.Book) (since time.Time, pod string) {
	for _, w := range book.Waiting {
		covered := slices.ContainsFunc(s.covered.Budget.Pods, func(p budget.Pod) bool { return p.UID == w.UID })
		if _, goes := book.Entries[w.UID]; covered && !goes && !w.Blocked && w.Waits(s.now) && w.Last.After(s.passed) && (since.IsZero() || w.Since.Before(since)) {
			since, pod = w.Since.Truncate(time.Second), w.Pod
		}
	}
	return since, pod
}

// waiting reports whether a request waits for a unit.
func (s *situation) waiting() bool { since, _ := s.waits(s.book); return !since.IsZero() }

// showSites adds what peers read, and what they show, to a status.
func (s *situation) showSites(status *limpetv1alpha1.DistributedPodDisruptionBudgetStatus) {
	k := s.covered.Budget.Sites
	if k == nil {
		return
	}
	status.Site = string(k.Self)
	groups, _ := s.siteGroups()
	for _, share := range ledger.SharesOf(s.book, s.pub.Name, string(s.pub.UID)) {
		shown := books.ShownShare(share)
		shown.Budget, shown.UID, shown.Spec, shown.Number = "", "", "", share.Number()
		if at := slices.IndexFunc(groups, func(g sites.Group) bool { return g.ID == share.Group }); at >= 0 {
			report := sites.ReportOf(s.siteInput(s.book, groups[at], share, ""), share)
			if shown.Short = report.Short; !report.Since.IsZero() {
				shown.WaitingSince, shown.WaitingPod = &metav1.Time{Time: report.Since}, report.Pod
			}
		}
		status.Shares = append(status.Shares, shown)
	}
	for _, site := range k.Spec.Members {
		if h, known := k.Peers[site]; known {
			of := limpetv1alpha1.FederatedStatus{
				Site: string(site), CurrentHealthy: h.Healthy, ExpectedPods: h.Expected, DisruptionsAllowed: h.Allowed,
				Problem: shortened(cmp.Or(h.Problem, h.Unsettled), longestProblem),
			}
			var since time.Time
			if of.Share, since = h.Shows(site, groups); !since.IsZero() {
				of.WaitingSince = &metav1.Time{Time: since}
			}
			status.FederatedStatuses = append(status.FederatedStatuses, of)
		}
	}
}

// divides reports whether units may move soon.
func (s *situation) divides() bool {
	shares := ledger.SharesOf(s.book, s.pub.Name, string(s.pub.UID))
	waits := s.waiting() || len(shares) == 0
	return s.covered.Budget.Sites != nil && (waits || slices.ContainsFunc(shares, func(of ledger.Share) bool { return !of.Open }))
}

// shared says in the condition DisruptionAllowed why the peers do not agree.
func (s *situation) shared(c metav1.Condition) metav1.Condition {
	if s.problem != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(budget.ReasonPeers), "No pod may go: "+s.problem+"."
	}
	return c
}
