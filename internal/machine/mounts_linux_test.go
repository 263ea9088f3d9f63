package machine

import "testing"

// TestTheMountOfAPath finds the mount that is on top at a path.
func TestTheMountOfAPath(t *testing.T) {
	table := `1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw
2 1 8:1 /opt/cni/bin//deleted /opt/cni/bin rw - ext4 /dev/sda1 rw
3 1 8:1 /var/lib/cni /var/lib/cni ro - ext4 /dev/sda1 rw
4 3 8:1 /var/lib/cni/limpet /var/lib/cni/limpet rw - ext4 /dev/sda1 rw
5 4 8:2 / /var/lib/cni/limpet rw - ext4 /dev/sdb1 rw
6 1 8:1 /a /with\040space rw - ext4 /dev/sda1 rw
`
	for path, want := range map[string]string{
		"/opt/cni/bin":               "8:1 /opt/cni/bin//deleted",
		"/opt/cni/binary":            "8:1 /",
		"/var/lib/cni/results":       "8:1 /var/lib/cni",
		"/var/lib/cni/limpet/sub":    "8:2 /",
		"/with space/limpet":         "8:1 /a",
		"/etc/cni/net.d":             "8:1 /",
		"/var/lib/cni/limpet-backup": "8:1 /var/lib/cni",
	} {
		if got, err := rootOf(table, path); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	if _, err := rootOf("", "/opt"); err == nil {
		t.Error("found a mount in an empty table")
	}
	if _, err := Mounted(t.TempDir()); err != nil {
		t.Error(err)
	}
}
