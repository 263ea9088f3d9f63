package ipamtool_test

import (
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestFlagsStandWhereTheyAreTyped has flags before the command, and the other name of -o.
func TestFlagsStandWhereTheyAreTyped(t *testing.T) {
	n := newNode(t)
	n.fill()
	want, _ := n.run("list", "-o", "json", "--data-dir", n.dir)
	for _, args := range [][]string{
		{"--data-dir", n.dir, "list", "-o", "json"},
		{"--data-dir=" + n.dir, "-o", "json", "list"},
		{"list", "--output", "json", "--data-dir", n.dir},
		{"--output=json", "list", "--data-dir", n.dir},
	} {
		if out, exit := n.run(args...); out != want || exit != ipamtool.ExitDone {
			t.Errorf("%q: exit %d:\n%s", args, exit, out)
		}
	}
	if out, exit := n.run("--repair", "check", "--data-dir", n.dir); exit != ipamtool.ExitDone {
		t.Errorf("--repair check: exit %d:\n%s", exit, out)
	}
	help, _ := n.run("list", "--help")
	if out, exit := n.run("help", "list"); out != help || exit != ipamtool.ExitDone {
		t.Errorf("help list: exit %d:\n%s", exit, out)
	}
}

// TestShowReadsNoOtherRecord damages a record and shows another one.
func TestShowReadsNoOtherRecord(t *testing.T) {
	n := newNode(t)
	n.fill()
	n.edit(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("reservations")).Put([]byte("limpet\x00default\x00db-0\x00eth0"), []byte("{"))
	})
	if out, exit := n.on("list"); exit == ipamtool.ExitDone {
		t.Errorf("list: exit %d:\n%s", exit, out)
	}
	for _, query := range []string{"10.244.0.12", "default/web-0", "aa11"} {
		if out, exit := n.on("show", query); exit != ipamtool.ExitDone || !strings.Contains(out, "default/web-0") {
			t.Errorf("show %s: exit %d:\n%s", query, exit, out)
		}
	}
}

// TestNamesControlNoTerminal has a pod whose name clears the screen and hides what follows.
func TestNamesControlNoTerminal(t *testing.T) {
	n := newNode(t)
	evil := "\x1b[2J\u009b8m\t\nweb"
	a := n.attachment(evil, "ff99", "10.244.0.66")
	n.file(persistence.New(persistence.Options{Dir: n.dir}).Update(t.Context(), func(tx *persistence.Tx) error { return tx.PutAttachment(a) }))
	for _, args := range [][]string{{"list"}, {"show", "10.244.0.66"}, {"show", "default/" + evil}, {"release", "10.244.0.66"}, {"show", evil}} {
		out, _ := n.on(args...)
		if strings.ContainsAny(out, "\x1b\u009b\t") || !strings.Contains(out, `\x1b[2J`) {
			t.Errorf("%q: %q", args, out)
		}
	}
}
