package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/peers"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// Options are what a Judge works with.
type Options struct {
	Reader *Reader
	Books  *books.Books
	// Live reads PodDisruptionBudgets, pods that are not Ready, and the newest budgets past the cache.
	Live client.Reader
	// Peers reads the budgets of other sites.
	Peers *peers.Peers
	// Access asks what users may do.
	Access client.Writer
	Clock  clock.Clock
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
	// User is the controller's own user name.
	User string
	// NodeEnders are the user names of programs that end nodes, such as Karpenter.
	NodeEnders []string
	// Metrics count the answers; nil counts nothing.
	Metrics *Metrics
}

// Judge decides whether pods may go.
type Judge struct {
	reader         *Reader
	books          *books.Books
	live           *cluster.LiveReader
	newest         *cluster.LiveReader
	peers          *peers.Peers
	access         client.Writer
	turns          *fair.Semaphore[string] // by namespace
	clock          clock.Clock
	maxReservation time.Duration
	user           string
	nodeEnders     []string
	metrics        *Metrics
}

// NewJudge makes a Judge.
func NewJudge(o Options) *Judge {
	return &Judge{
		reader: o.Reader, books: o.Books, live: cluster.NewLiveReader(o.Live, cluster.LimitProven),
		newest: cluster.NewLiveReader(pages{o.Live}, limitUnseen), peers: o.Peers, access: o.Access, turns: fair.NewSemaphore[string](limitCounted), clock: o.Clock,
		maxReservation: o.MaxReservation, user: o.User, nodeEnders: o.NodeEnders, metrics: o.Metrics,
	}
}

// Judge decides about one request, and enters the answer into the book. Each of these calls the next one:
//
//	decideInTurn       waits until other decisions leave room
//	decideOnNewestPod  reads a pod that was not Ready again, once it has an entry
//	decideCaughtUp     waits for a cache that is behind the book
//	decideFromCaches   gathers and plans; a refusal ends here
//	decideInBook       plans from the book that it writes, in its lane
func (j *Judge) Judge(ctx context.Context, r Request) (Answer, error) {
	c, err := j.inquire(ctx, r)
	if err != nil {
		return Answer{}, fmt.Errorf("judge %s of pod %s: %w", r.Verb, client.ObjectKeyFromObject(r.Pod), err)
	}
	answer := Answer{Vector: c.vector, Decision: budget.Decision{Verdict: budget.Allowed, Reason: budget.ReasonUnprotected}}
	switch {
	case c.vector == budget.None || len(c.covering) == 0 && len(c.pdbs) == 0:
		return answer, nil // most requests; no metric counts them
	case len(c.covering) > books.MostBudgets:
		answer.Decision = c.tooMany()
	case c.unread != nil:
		if answer.Decision, err = j.unconfirmed(ctx, c); err != nil {
			return Answer{}, fmt.Errorf("judge %s of pod %s: %w", r.Verb, client.ObjectKeyFromObject(r.Pod), err)
		}
	default:
		if answer, err = j.decideInTurn(ctx, c); err != nil {
			return Answer{}, fmt.Errorf("judge %s of pod %s: %w", r.Verb, client.ObjectKeyFromObject(r.Pod), err)
		}
	}
	answer.Once = c.once()
	if !r.DryRun {
		j.metrics.Decided(answer.Vector, answer.Decision)
	}
	return answer, nil
}

// limitCounted bounds what the decisions of one namespace, and of all, count at a time, in pods and workloads that are
// looked at: each counts once for each budget of the pod of the request. One takes some 70 bytes of memory, and a
// microsecond. A tenant may have thousands of pods that run nowhere, 32 budgets of each, and many requests.
var limitCounted = fair.Bounds{Each: 200_000, All: 600_000}

// decideInTurn decides when the decisions that are being made leave room for what this one counts.
func (j *Judge) decideInTurn(ctx context.Context, c inquiry) (Answer, error) {
	objects, err := j.reader.count(ctx, c.request.Pod.Namespace)
	if err != nil {
		return Answer{}, err
	}
	j.askPeers(ctx, c) // they may be slow, and others wait for the turn: a second look, in askAgain, is rare
	weight := (len(c.covering) + len(c.pdbs)) * objects
	if slices.ContainsFunc(c.covering, func(of covering) bool { return of.divided != nil }) {
		more, err := j.reader.weigh(ctx, c.request.Pod.Namespace, c.covering, objects)
		if err != nil {
			return Answer{}, err
		}
		weight += more
	}
	leave, err := j.turns.Enter(ctx, c.request.Pod.Namespace, weight)
	if err != nil {
		return Answer{}, fmt.Errorf("wait for other decisions in namespace %s: %w", c.request.Pod.Namespace, err)
	}
	defer leave()
	return j.decideOnNewestPod(ctx, c)
}

// askPeers reads the peers of all budgets at once that may refuse a request.
func (j *Judge) askPeers(ctx context.Context, c inquiry) {
	var all sync.WaitGroup
	for i := range c.covering {
		of := &c.covering[i]
		b, _ := budget.Of(of.object) // the valid part of the rules holds
		if b.Exempt = of.matcher.Exempts(c.request.Pod); of.divided == nil || len(of.divided.Spec.Federation) == 0 || !of.leaves && !b.Judges(c.vector) {
			continue
		}
		all.Go(func() { of.sites = SitesOf(ctx, j.peers.Cluster, j.peers.Read, of.divided) })
	}
	all.Wait()
}

// askAgain reads peers again that show other units than the book: it may have taken a unit since they were read. What a peer
// showed holds until it shows more.
func (j *Judge) askAgain(ctx context.Context, c inquiry, book ledger.Book) {
	for _, of := range c.covering {
		if b := (budget.Budget{Name: of.object.Name, UID: string(of.object.UID), Sites: of.sites}); of.sites == nil || !b.Contradicted(book) {
			continue
		}
		for site, heard := range SitesOf(ctx, j.peers.Cluster, j.peers.Read, of.divided).Peers {
			if heard.Problem == "" {
				of.sites.Peers[site] = heard // the input has it, too
			}
		}
	}
}

// errBehind is returned when the cache of this replica is older than what a book relies on.
var errBehind = errors.New("the cache of this replica is behind")

// decideCaughtUp decides about an inquiry, for a second time if the cache was behind the book.
func (j *Judge) decideCaughtUp(ctx context.Context, c inquiry) (Answer, error) {
	answer, behind, err := j.decideFromCaches(ctx, c)
	if err != nil || behind == "" {
		return answer, err
	}
	if err := j.await(ctx, behind); err != nil {
		return answer, err
	}
	answer, behind, err = j.decideFromCaches(ctx, c)
	if err == nil && behind != "" {
		err = errBehind
	}
	return answer, err
}

// decideFromCaches decides by what the cache shows now. behind is the version of pods that the cache
// has to show for the decision; "" when it shows it.
func (j *Judge) decideFromCaches(ctx context.Context, c inquiry) (answer Answer, behind string, err error) {
	answer.Vector = c.vector
	version, err := j.reader.Version(ctx) // before the pods are read
	if err != nil {
		return answer, "", err
	}
	in, err := j.input(ctx, c)
	if err != nil {
		return answer, "", err
	}
	if in.Book, err = j.books.Look(ctx, books.OfBudgets(in.Namespace)); err != nil {
		return answer, "", fmt.Errorf("look into the book: %w", err)
	}
	j.askAgain(ctx, c, in.Book)
	answer.Decision = budget.Plan(in)
	if len(c.covering) == 0 && !c.outOfServiceFirst() { // an eviction that PodDisruptionBudgets alone concern, and pods that are out of service
		return answer, "", nil
	}
	if spends(answer.Decision) && !in.Book.Knows(version) {
		return answer, in.Book.Seen, nil
	}
	switch {
	case c.request.DryRun:
		answer.Left = left(in, answer.Decision)
	case onlyNoted(answer.Decision) && in.Book.Name != "":
		j.note(ctx, c, in, answer.Decision)
	case answer.Take || answer.Verdict == budget.Refused || answer.Reason == budget.ReasonTaken:
		return j.decideInBook(ctx, c, in, version)
	}
	return answer, "", nil
}

// spends reports whether a decision is only right if all pods that count as available are there.
// A further call for a pod that has an entry is judged like the first one.
func spends(d budget.Decision) bool {
	return d.Verdict == budget.Allowed && (d.Take || d.Reason == budget.ReasonTaken)
}

// decideInBook decides again, from the book that it writes.
func (j *Judge) decideInBook(ctx context.Context, c inquiry, in budget.Input, version string) (answer Answer, behind string, err error) {
	answer.Vector = c.vector
	_, err = j.books.Decide(ctx, books.OfBudgets(in.Namespace), func(book ledger.Book) (ledger.Book, bool) {
		if len(c.covering) == 0 { // no reconciler looks at the book of a namespace without budgets
			book, _ = ledger.Observe(book, ledger.Seen{Version: version}, in.Now)
		}
		in.Book, behind, answer.taken = book, "", nil
		answer.Decision = budget.Plan(in)
		if spends(answer.Decision) && !book.Knows(version) {
			behind = book.Seen
			return book, false
		}
		var changed bool
		_, known := book.Entries[in.Pod.UID]
		book, answer.Decision, changed = entered(book, c, in, answer.Decision)
		if answer.Take && answer.Verdict != budget.Refused && !known { // an earlier request may rely on a known entry
			answer.taken = &taken{in.Namespace, book.Entries[in.Pod.UID]}
		}
		return book, changed
	})
	switch {
	case err == nil:
		if behind == "" && onlyNoted(answer.Decision) {
			j.note(ctx, c, in, answer.Decision)
		}
		return answer, behind, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || unrefusable(in):
		answer.Decision = budget.Decision{Verdict: budget.Accounted, Reason: budget.ReasonPolicy}
		return answer, "", nil
	}
	return answer, "", fmt.Errorf("enter into the book: %w", err)
}

// note enters a refused request into the book, after the answer.
func (j *Judge) note(ctx context.Context, c inquiry, in budget.Input, d budget.Decision) {
	in.Book, in.Budgets, in.PDBs = ledger.Book{}, nil, nil // thousands of pods, which the note would keep
	j.books.Note(ctx, books.OfBudgets(in.Namespace), func(book ledger.Book) (ledger.Book, bool) { return note(book, c, in, d) })
}

// await waits until the cache shows a version of pods.
func (j *Judge) await(ctx context.Context, version string) error {
	for end := j.clock.Now().Add(cacheWait); j.clock.Now().Before(end); {
		known, err := j.reader.Version(ctx)
		if err != nil || !cluster.Behind(known, version) {
			return err
		}
		select {
		case <-j.clock.After(cacheWait / 50):
		case <-ctx.Done():
			return fmt.Errorf("wait for the cache: %w", ctx.Err())
		}
	}
	return errBehind
}

// cacheWait is how long a decision waits for the cache.
const cacheWait = 500 * time.Millisecond

// decideOnNewestPod decides about an inquiry. A pod that is not Ready may go, and may become Ready before the
// book has its entry: another decision could count on the pod in between. So the pod is read again
// when the book has the entry, after which no decision counts on it, and judged as it is then.
func (j *Judge) decideOnNewestPod(ctx context.Context, c inquiry) (Answer, error) {
	answer, err := j.decideCaughtUp(ctx, c)
	if err != nil || c.request.DryRun || !spends(answer.Decision) || budget.PodOf(c.request.Pod, 0, j.clock.Now()).Serving {
		return answer, err
	}
	pod, err := j.servingNow(ctx, c.request.Pod)
	if err != nil || pod == nil {
		return answer, err
	}
	c.request.Pod = pod
	again, err := j.decideCaughtUp(ctx, c)
	if err != nil || again.Verdict != budget.Refused {
		return answer, err
	}
	return again, j.Return(ctx, answer)
}

// servingNow reads a pod past the cache; nil if the pod is gone or does not serve.
func (j *Judge) servingNow(ctx context.Context, asked *corev1.Pod) (*corev1.Pod, error) {
	var pod corev1.Pod
	switch err := j.live.Get(ctx, client.ObjectKeyFromObject(asked), &pod); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a pod that is gone is an answer
	case err != nil:
		return nil, fmt.Errorf("read pod again: %w", err)
	case pod.UID != asked.UID || !budget.PodOf(&pod, 0, j.clock.Now()).Serving:
		return nil, nil //nolint:nilnil // and so is another pod, or one that does not serve
	}
	return &pod, nil
}

// confirm puts the pod that the API server has into an inquiry, in the place of the one that the request shows: any
// client that reaches the port may send a request. A pod that is gone, or whose name another one has, is in no book:
// the API server itself finds that the pod is not there. The pod of an eviction was read before, and of a dry run
// nothing is written.
func (j *Judge) confirm(ctx context.Context, c inquiry) (inquiry, error) {
	asked := c.request.Pod
	if c.request.Own || c.request.DryRun || c.request.Verb == budget.VerbEvict || len(c.covering) == 0 {
		return c, nil
	}
	var pod corev1.Pod
	switch err := j.live.Get(ctx, client.ObjectKeyFromObject(asked), &pod); {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != asked.UID:
		return inquiry{request: c.request}, nil
	case err != nil:
		c.unread = fmt.Errorf("read pod: %w", err)
		return c, nil
	}
	c.request.Pod = &pod
	if equality.Semantic.DeepEqual(pod.Labels, asked.Labels) && equality.Semantic.DeepEqual(pod.OwnerReferences, asked.OwnerReferences) {
		return c, nil
	}
	return j.find(ctx, c.request)
}

// unconfirmed is the answer about a pod that could not be read: what no budget may refuse passes, without an entry.
func (j *Judge) unconfirmed(ctx context.Context, c inquiry) (budget.Decision, error) {
	in, err := j.input(ctx, c)
	if err != nil {
		return budget.Decision{}, err
	}
	if !unrefusable(in) {
		return budget.Decision{}, c.unread
	}
	return budget.Decision{Verdict: budget.Accounted, Reason: budget.ReasonPolicy}, nil
}
