package persistence_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestDamagedFilesStayAsTheyWere folds again and again after a recovery: what it has set aside is not written.
func TestDamagedFilesStayAsTheyWere(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir(), Rebuild: asRead})
	update(t, s, put(1))
	_, _, err := s.Compact(t.Context())
	must(t, err)
	update(t, s, put(2))
	zero(4096, 5000)(t, filepath.Join(s.Dir(), "limpet.journal"))
	damaged := filesOf(t, s.Dir())
	for i := range 4 {
		update(t, s, put(3+i))
		_, _, err := s.Compact(t.Context())
		must(t, err)
	}
	kept := 0
	for path, data := range filesOf(t, s.Dir()) {
		if name, _, found := strings.Cut(path, ".damaged-"); found {
			if kept++; !bytes.Equal(data, damaged[name]) {
				t.Errorf("%s was changed", path)
			}
		}
	}
	if kept != 4 {
		t.Errorf("%d files are kept, want 4", kept)
	}
}
