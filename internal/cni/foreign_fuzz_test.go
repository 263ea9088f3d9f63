package cni_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/hostlocal"
)

// FuzzForeignFiles writes files of host-local and its fork with any content. No verb fails
// because of them, and no address has two holders.
func FuzzForeignFiles(f *testing.F) {
	const released = `{"containerId":"c-web","ifName":"eth0","IPConf":{"address":"10.1.0.4/29"},"duration":10,"releaseTime":"2025-12-31T23:55:00Z"}`
	for _, s := range []struct{ file, cursor, record string }{
		{"c-web\r\neth0", "10.1.0.3", released},
		{"c-first\r\neth0\n", "10.1.0.3\n", `{"containerId":"c-web","ifName":"eth0","IPConf":{"address":"10.1.0.4/29"},"duration":10}`},
		{"", "::ffff:10.1.0.3", `{"ifName":"eth0","IPConf":{"address":"::ffff:10.1.0.4/120"},"duration":153722867,"releaseTime":"0001-01-01T00:00:00Z"}`},
		{"reserved by hand\n", "fe80::1%eth0", `{"ifName":"eth0","IPConf":{"address":"fd00::4/64"},"duration":1,"releaseTime":"9999-12-31T23:59:59+23:59"}`},
	} {
		f.Add([]byte(s.file), []byte(s.cursor), []byte(s.record))
	}
	f.Fuzz(func(t *testing.T, file, cursor, record []byte) {
		w := newTestNode(t)
		w.ipam = oneStack
		w.hostLocal("10.1.0.4", string(file))
		w.hostLocal("last_reserved_ip.0", string(cursor))
		w.forkRecord("web", string(record))
		verbs := w.plugin.Funcs()
		web := lostSandbox("web", true)
		judge(t, "STATUS", verbs.Status(w.args(web, nil)))
		if len(record)%2 == 0 { // now and then host-local started the container
			judge(t, "DEL", verbs.Del(w.args(web, nil)))
		}
		_, err := w.add(next(web))
		judge(t, "ADD", err)
		w.oneHolderEach()
		w.pass(time.Hour)
		for i := range 6 {
			_, err := w.add(plain(fmt.Sprintf("other-%d", i)))
			judge(t, "ADD", err, cni.CodeExhausted)
			w.oneHolderEach()
		}
		judge(t, "DEL", w.del(next(web)))
		judge(t, "GC", verbs.GC(w.args(web, map[string]any{"cni.dev/valid-attachments": nil})))
		if left := w.read().Attached; len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

// oneHolderEach asserts that no file of another plugin names an attached address.
func (w *testNode) oneHolderEach() {
	w.t.Helper()
	dir, seen := hostlocal.New(filepath.Join(w.dir, network)), map[netip.Addr]bool{}
	for id, a := range w.read().Attached {
		for _, addr := range a.Addresses {
			h, found, err := dir.Holder(addr)
			if err != nil || found && !h.Mirrored || seen[addr] {
				w.t.Errorf("%s has %s, its file names %+v, %v; twice: %t", id, addr, h, err, seen[addr])
			}
			seen[addr] = true
		}
	}
}
