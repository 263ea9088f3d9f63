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

func TestAClusterNeedsWhatItAsksFor(t *testing.T) {
	for more, want := range map[string][]string{
		"": {"kubernetes", "containerd", "etcd", "cni"}, "coredns": {"kubernetes", "containerd", "coredns", "etcd", "cni"},
	} {
		var names []string
		for _, c := range needed(more) {
			names = append(names, c.name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("components of a cluster with %q (-want +got):\n%s", more, diff)
		}
	}
}
