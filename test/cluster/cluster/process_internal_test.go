package cluster

import "testing"

func TestParseStat(t *testing.T) {
	cases := map[string]struct{ stat, want string }{
		"a running process":                        {"7 (etcd) S 1 7 7 0 -1 1 2 3 4 5 6 7 8 9 20 0 12 0 4711 9 9", "4711"},
		"a name with a parenthesis in it":          {"7 (a) b) S 1 7 7 0 -1 1 2 3 4 5 6 7 8 9 20 0 12 0 4711 9 9", "4711"},
		"one that has ended":                       {"7 (etcd) Z 1 7 7 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 4711 9 9", ""},
		"one that a thread turns into another one": {"7 (limpet-cluster) Z 1 7 7 0 -1 1 2 3 4 5 6 7 8 9 20 0 5 0 4711 9 9", "4711"},
		"nothing at all":                           {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := parseStat(tc.stat); got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("start %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
