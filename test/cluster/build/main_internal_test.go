package build

import (
	"strings"
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
		all, err := needed("", more)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			names = append(names, c.name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("components of a cluster with %q (-want +got):\n%s", more, diff)
		}
	}
}

func TestAnotherKubernetesTakesThePlaceOfTheUsualOne(t *testing.T) {
	all, err := needed("1.30")
	if err != nil || all[0].version != "v1.30.14" || all[0].file() != "kubernetes130" {
		t.Errorf("components with Kubernetes 1.30: %+v, %v", all, err)
	}
	if all, err = needed("1.36"); err != nil || all[0].file() != "kubernetes" {
		t.Errorf("components with the usual Kubernetes, by its name: %+v, %v", all, err)
	}
	if _, err := needed("1.29"); err == nil || !strings.Contains(err.Error(), `LIMPET_KUBERNETES is "1.29"; 1.30, 1.32, 1.34, 1.37, or nothing for v1.36.3`) {
		t.Errorf("components with a version that cannot be built: %v", err)
	}
}
