package build

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBlankImportsAreRemoved(t *testing.T) {
	const before, after = "import (\n\t_ \"a/b\"\n\t_ \"a/c\"\n)\n", "import (\n\t_ \"a/c\"\n)\n"
	if got, err := withoutImports(before, []string{"a/b"}); err != nil || got != after {
		t.Errorf("withoutImports: %q, %v, want %q", got, err, after)
	}
	if _, err := withoutImports(before, []string{"a"}); err == nil {
		t.Error("an import that is not there is no error")
	}
}

func TestAClusterNeedsNoFlannel(t *testing.T) {
	var names []string
	for _, c := range needed() {
		names = append(names, c.name)
	}
	if diff := cmp.Diff([]string{"kubernetes", "containerd", "etcd", "cni"}, names); diff != "" {
		t.Errorf("components of a cluster (-want +got):\n%s", diff)
	}
}
