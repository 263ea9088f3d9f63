package upgrade_test

import (
	"errors"
	"os"
	"testing"

	"github.com/limpet-io/limpet/test/e2e/upgrade"
)

const repo = "../../.."

// previous stands for the previous version until there is a release.
const previous = "196defa2"

// TestAnUpgradeAndBack takes a cluster to this checkout and back while pods start, end and are rebuilt. Each step leaves a
// mixed state. The order is the one in which the parts that depend on others come first. `make test-upgrade` runs all.
func TestAnUpgradeAndBack(t *testing.T) {
	older := t.TempDir()
	err := upgrade.Earlier(t.Context(), repo, previous, older, os.Stderr)
	if errors.Is(err, upgrade.ErrNoCommit) {
		t.Logf("both versions have the binaries of this checkout: %v", err)
		older, err = repo, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := upgrade.Start(t.Context(), upgrade.Setup{Name: "upgrade", Repo: repo, Older: older, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	r.Bed.DownAfter(t)
	order := upgrade.Order{upgrade.Agent, upgrade.Controller, upgrade.CRDs}
	for _, up := range []bool{true, false} {
		report, err := r.Run(t.Context(), order, up)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(report.Row())
		for _, violation := range report.Violations {
			t.Error(violation)
		}
		if report.Pods == 0 || report.ADDs == 0 || report.Kept == 0 {
			t.Errorf("nothing went on beside the steps: %+v", report)
		}
	}
}
