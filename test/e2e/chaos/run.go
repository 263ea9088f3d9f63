package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/limpet-io/limpet/test/disruptions"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/holders"
)

// Report is what one run found.
type Report struct {
	Seed   uint64
	Length time.Duration
	// Version is the version of Limpet.
	Version string
	// Faults counts what was done, by kind; Failed, what could not be done.
	Faults map[Kind]int
	Failed int
	// Rebuilt, Kept, Followed and FreeToMove are as in Keeper.
	Rebuilt, Kept, Followed, FreeToMove int
	// Looks counts looks into the sandboxes of a node, and Asked how often all addresses of a node were asked for by ARP.
	Looks, Asked int
	// Ended counts loans that a person had to end, because the state of their home was rolled back.
	Ended int
	// Budgets is what the audit log says of the budgets.
	Budgets disruptions.Result
	// Behind is how long after a change a watch of the observer showed it, at the most. Unknown counts what would be a
	// violation of a budget, had the observer's watch not been late too.
	Behind  time.Duration
	Unknown int
	// Violations are the broken promises.
	Violations []string
}

// runner is one run on a cluster.
type runner struct {
	bed      *bed.Bed
	progress func(string, ...any)
	ranges   map[string][]netip.Addr // of each node
	sights   *Sights
	across   *holders.Across

	mutex  sync.Mutex // guards what follows
	keeper *Keeper
	report Report
	killed []time.Time // when the API server was
}

// Run disturbs a cluster with the faults of a seed, and watches it. The cluster's audit log must
// be of disruptions.AuditPolicy, and its probes must run. An error tells that the run proves nothing.
func Run(ctx context.Context, b *bed.Bed, seed uint64, length time.Duration, progress func(string, ...any)) (Report, error) {
	r := &runner{bed: b, progress: progress, ranges: map[string][]netip.Addr{}, sights: NewSights(), across: holders.NewAcross(), keeper: NewKeeper(), report: Report{Seed: seed, Length: length, Faults: map[Kind]int{}}}
	if err := r.setUp(ctx); err != nil {
		return r.report, err
	}
	watching, stop := context.WithCancel(ctx)
	watched := r.watch(watching)
	r.disturb(ctx, Schedule(seed, length, b.Cluster.Nodes()))
	err := r.atTheEnd(ctx)
	stop()
	watched.Wait()
	r.report.Rebuilt, r.report.Kept, r.report.Followed, r.report.FreeToMove = r.keeper.Rebuilt, r.keeper.Kept, r.keeper.Followed, r.keeper.FreeToMove
	r.report.Violations = append(r.keeper.Violations, r.report.Violations...)
	if err == nil {
		err = r.budgets()
	}
	return r.report, err
}

// setUp makes the workloads, and waits until all pods are Ready and recorded.
func (r *runner) setUp(ctx context.Context) error {
	if err := r.findRanges(ctx); err != nil {
		return err
	}
	version, err := r.bed.Cluster.Exec(ctx, r.bed.Cluster.Nodes()[0], plugin, "version")
	if err != nil {
		return err
	}
	r.report.Version = strings.Fields(string(version) + " ? ?")[1]
	if _, err := r.bed.Kubectl(ctx, "create", "namespace", Namespace); err != nil {
		return err
	}
	if _, err := r.bed.KubectlIn(ctx, manifest(), "apply", "-f", "-"); err != nil {
		return err
	}
	return bed.Await(ctx, 2*time.Minute, "the workloads to be recorded", func(ctx context.Context) (bool, string) {
		if ready, state := r.allReady(ctx); !ready {
			return false, state
		}
		for set, want := range map[string]int{"db": 6, "pay": 3, "roam": 3} {
			if found, err := r.bed.Recorded(ctx, Namespace, set); err != nil || len(found) != want {
				return false, fmt.Sprintf("%s has %d records, %v", set, len(found), err)
			}
		}
		return true, ""
	})
}

// disturb does all faults, and returns when the last one has ended.
func (r *runner) disturb(ctx context.Context, faults []Fault) {
	start := time.Now()
	var all sync.WaitGroup
	var nodes sync.Mutex
	for _, f := range faults {
		if r.wait(ctx, time.Until(start.Add(f.At))) != nil {
			break
		}
		all.Go(func() {
			if disturbsNode(f.Kind) { // a node that takes long to recover delays the next one's fault
				nodes.Lock()
				defer nodes.Unlock()
			}
			r.do(ctx, f, start)
		})
	}
	all.Wait()
}

// do does one fault.
func (r *runner) do(ctx context.Context, f Fault, start time.Time) {
	r.progress("%6.1fs  %s", time.Since(start).Seconds(), f)
	err := actions[f.Kind](ctx, r, f, rand.New(rand.NewPCG(f.Pick, 0))) //nolint:gosec // the choice must be repeatable
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.report.Faults[f.Kind]++
	if err != nil && ctx.Err() == nil {
		r.report.Failed++
		r.progress("         %s: %.200s", f.Kind, err)
	}
}

func (r *runner) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(max(d, 0)):
		return nil
	}
}

// keep tells the keeper something.
func (r *runner) keep(tell func(*Keeper, time.Time)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	tell(r.keeper, time.Now())
}

// violate reports a broken promise.
func (r *runner) violate(format string, args ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.report.Violations = append(r.report.Violations, clockTime(time.Now())+" "+fmt.Sprintf(format, args...))
}
