package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// loan is what a BorrowedAddress says.
type loan struct {
	Metadata struct{ Name string }
	Spec     struct{ Pod, IPs string }
	Status   struct {
		Phase, Borrower string
		Epoch           int64
	}
}

func (r *runner) loans(ctx context.Context) ([]loan, error) {
	out, err := r.bed.Kubectl(ctx, "get", "borrowedaddresses", "-n", Namespace, "-o", "json")
	if err != nil {
		return nil, err
	}
	var all struct{ Items []loan }
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("read loans: %w", err)
	}
	return all.Items, nil
}

// endLost does what the event of a loan of a state that was rolled back asks a person for: it says that no pod has the
// addresses, once no node has a sandbox with one.
func (r *runner) endLost(ctx context.Context) error {
	all, err := r.loans(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.Status.Borrower != "?" {
			continue
		}
		if runs, err := r.runs(ctx, strings.Split(l.Spec.IPs, ",")); err != nil || runs {
			return err
		}
		patch := fmt.Sprintf(`{"status":{"borrower":null,"epoch":%d}}`, l.Status.Epoch+1)
		if _, err := r.bed.Kubectl(ctx, "patch", "borrowedaddress", l.Metadata.Name, "-n", Namespace, "--type=merge", "-p", patch); err != nil {
			return err
		}
		r.progress("         the loan of %s is ended by a person", l.Spec.Pod)
		r.mutex.Lock()
		r.report.Ended++
		r.mutex.Unlock()
	}
	return nil
}

// runs reports whether a sandbox of any node has one of some addresses.
func (r *runner) runs(ctx context.Context, ips []string) (bool, error) {
	for _, node := range r.bed.Cluster.Nodes() {
		seen, err := r.sandboxes(ctx, node)
		if err != nil {
			return false, err
		}
		for _, s := range seen {
			if slices.ContainsFunc(s.Addrs, func(a netip.Addr) bool { return slices.Contains(ips, a.String()) }) {
				return true, nil
			}
		}
	}
	return false, nil
}
