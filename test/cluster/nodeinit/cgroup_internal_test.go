package nodeinit

import "testing"

func TestControllersThatTheNodeLacksAreHidden(t *testing.T) {
	const head, cpu, hugetlb = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n", "cpuacct\t2\t1\t1", "\nhugetlb\t0\t1\t1"
	for name, tc := range map[string]struct {
		v1   []string
		want string
	}{
		"v1 with a unified one beside it": {[]string{"cpu,cpuacct", "name=systemd"}, head + cpu},
		"unified only":                    {nil, head + cpu + hugetlb},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ownControllers(head+cpu+hugetlb+"\n", tc.v1); got != tc.want {
				t.Errorf("ownControllers: %q, want %q", got, tc.want)
			}
		})
	}
}
