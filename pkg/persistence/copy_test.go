package persistence_test

import (
	"errors"
	"os"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestNoCopyOfADamagedFold damages each segment of a fold of several. A copy would have a checksum that is right for the
// damage.
func TestNoCopyOfADamagedFold(t *testing.T) {
	made := filled(t, 3000)
	_, _, err := made.Compact(t.Context())
	must(t, err)
	good := filesOf(t, made.Dir())
	info, err := os.Stat(persistence.ActiveFold(made.Dir()))
	must(t, err)
	if info.Size() < 2<<20 {
		t.Fatalf("%d bytes: the test tests little", info.Size())
	}
	for at := 300_000; at < int(info.Size())-1<<20; at += 1 << 20 {
		dir := t.TempDir()
		good.write(t, dir)
		zero(at, at+5000)(t, persistence.ActiveFold(dir))
		if _, _, err := persistence.New(persistence.Options{Dir: dir}).Compact(t.Context()); !errors.Is(err, persistence.ErrDamaged) {
			t.Errorf("a copy of a fold that is damaged at %d: %v", at, err)
		}
	}
}
