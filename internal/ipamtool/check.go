package ipamtool

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// recheckDelay is the time between two looks at a difference, in which pods start or end.
const recheckDelay = 2 * time.Second

var checkCommand = command{
	name:    "check",
	summary: "Check that the parts of the state agree with each other, and with the containers of this node",
	example: "limpet-ipam check\nlimpet-ipam check -o json | jq '.findings[] | select(.severity == \"violation\")'\nlimpet-ipam check --repair",
	flags: func(f *flag.FlagSet, o *options) {
		f.BoolVar(&o.repair, "repair", false, "rebuild the state on a violation, from what can be read and from the containers of this node")
	},
	run: (*Tool).check,
}

// Verdict is the answer of check. The JSON form is documented in docs/operate/operations.md: keys are added, never
// changed.
type Verdict struct {
	DataDir      string          `json:"dataDir"`
	Bytes        int64           `json:"bytes"`
	Attachments  int             `json:"attachments"`
	Reservations int             `json:"reservations"`
	Recoveries   uint64          `json:"recoveries"`
	Violations   int             `json:"violations"`
	Notes        int             `json:"notes"`
	Findings     []audit.Finding `json:"findings"`

	unread bool                   // the state could not be read, so there is nothing to count
	more   map[audit.Severity]int // findings that are not in the list
}

func (t *Tool) check(ctx context.Context, o options) error {
	v, err := t.audit(ctx, o)
	if err == nil && v.Violations > 0 && o.repair {
		if err = t.repair(ctx, o, v); err == nil {
			v, err = t.audit(ctx, o)
		}
	}
	if err != nil {
		return err
	}
	if err := v.write(t.Stdout, o.output); err != nil {
		return err
	}
	if v.Violations > 0 {
		return noError(count(v.Violations, "violation") + "; docs/operate/operations.md says what to do for each kind")
	}
	return nil
}

// audit compares the state with the containers that run. Both are not read at the same moment: differences are
// checked again after a pause, and only differences found twice are reported.
func (t *Tool) audit(ctx context.Context, o options) (Verdict, error) {
	v, err := t.compare(ctx, o)
	if err != nil || !slices.ContainsFunc(v.Findings, audit.Finding.Fleeting) {
		return v, err
	}
	if err := pause(ctx, recheckDelay); err != nil {
		return v, err
	}
	again, err := t.compare(ctx, o)
	again.Findings = audit.Confirmed(v.Findings, again.Findings)
	return again.counted(), err
}

func pause(ctx context.Context, d time.Duration) error {
	timer, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-timer.Done()
	return ctx.Err()
}

// compare audits the state once.
func (t *Tool) compare(ctx context.Context, o options) (Verdict, error) {
	r, err := audit.Auditor{Now: t.Now, NetNS: t.NetNS, Running: t.Running}.Audit(ctx, o.store(nil))
	if err != nil {
		return Verdict{}, explain(err, o.dataDir)
	}
	v := Verdict{
		DataDir: o.dataDir, Bytes: r.Report.Size, Recoveries: r.Report.Recoveries, Findings: r.Findings, unread: r.Unread,
		Attachments: r.Report.Attachments, Reservations: r.Report.Reservations, more: r.More,
	}
	return v.counted(), nil
}

func (v Verdict) counted() Verdict {
	v.Violations, v.Notes = v.more[audit.Violation], v.more[audit.Note]
	if v.Findings == nil {
		v.Findings = []audit.Finding{} // JSON shows an empty list as one
	}
	for _, f := range v.Findings {
		if f.Severity == audit.Violation {
			v.Violations++
		} else {
			v.Notes++
		}
	}
	return v
}

// repair makes the store rebuild the state, as for a verb that finds the state damaged.
func (t *Tool) repair(ctx context.Context, o options, v Verdict) error {
	made, rebuild := false, t.Rebuild(o.dataDir)
	var refused error
	store := o.store(func(left persistence.Salvaged) (records reservation.Records, err error) {
		made = true
		records, err = rebuild(left)
		refused = err
		return records, err
	})
	err := store.Update(ctx, func(*persistence.Tx) error {
		if made {
			return persistence.ErrUnchanged
		}
		return fmt.Errorf("%s %s: %w", v.Findings[0].Subject, v.Findings[0].Problem, persistence.ErrDamaged)
	})
	if refused != nil {
		return refused // the error says what to do, and another --repair does not help
	}
	return explain(err, o.dataDir)
}

func (v Verdict) write(w io.Writer, output string) error {
	if output == "json" {
		return writeJSON(w, v)
	}
	if len(v.Findings) > 0 {
		t := table{gap: 3}
		t.row("SEVERITY", "KIND", "SUBJECT", "PROBLEM")
		for _, f := range v.Findings {
			t.row(string(f.Severity), string(f.Kind), f.Subject, f.Problem)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	for _, severity := range []audit.Severity{audit.Violation, audit.Note} {
		if n := v.more[severity]; n > 0 {
			if _, err := fmt.Fprintf(w, "and %s more\n", count(n, string(severity))); err != nil {
				return err
			}
		}
	}
	if v.unread {
		return nil
	}
	verdict := "sound"
	if v.Violations > 0 {
		verdict = count(v.Violations, "violation")
	}
	_, err := fmt.Fprintf(w, "%s: %s, %s; %s, %s, %s, rebuilt %s\n", v.DataDir, verdict, count(v.Notes, "note"),
		count(v.Attachments, "attachment"), count(v.Reservations, "reservation"), size(v.Bytes), count(v.Recoveries, "time"))
	return err
}

func count[N int | uint64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// size returns a number of bytes with a unit.
func size(bytes int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	n, i := float64(bytes), 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	if n < 10 && i > 0 {
		return fmt.Sprintf("%.1f %s", n, units[i])
	}
	return fmt.Sprintf("%.0f %s", n, units[i])
}
