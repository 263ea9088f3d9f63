package cniplugin_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func (m *model) addStep(s sandbox, orphan bool) {
	h := m.happened("ADD", s)
	m.orphan = orphan
	addrs, err := m.add(s)
	m.orphan, h.orphan = false, orphan
	h.addrs, h.code = addrs, codeOf(err)
	if err == nil {
		m.holds[s.attachment()] = addrs
		for id, a := range h.before.Attached {
			if a.Owner == s.owner() && !h.alive(a) {
				delete(m.holds, id)
			}
		}
	}
	m.judge(h)
}

func (m *model) delStep(s sandbox) {
	if m.rand.IntN(3) > 0 {
		delete(m.netns, s.netns())
	}
	h := m.happened("DEL", s)
	h.code = codeOf(m.del(s))
	delete(m.holds, s.attachment())
	m.judge(h)
}

// failingAdd is an ADD after which a plugin further on fails: no cache file is
// written, and the DEL has no earlier result.
func (m *model) failingAdd(s sandbox) {
	before := m.happened("ADD", s)
	addrs, err := m.addUncached(s, nil)
	before.addrs, before.code = addrs, codeOf(err)
	if err != nil {
		m.judge(before)
		return
	}
	m.holds[s.attachment()] = addrs
	found := maps.Clone(before.before.Reserved)
	for id, a := range before.before.Attached {
		if a.Owner != s.owner() || before.alive(a) {
			continue
		}
		delete(m.holds, id)
		if a.Seq == before.newestSeq() && a.Retain > 0 { // ended unseen: the ADD reserves and claims in one
			found[s.owner()] = reservation.Reservation{Addresses: a.Addresses, Deadline: reservation.Deadline{From: m.now, For: a.Retain}}
		}
	}
	m.judge(before)

	h := m.happened("DEL", s)
	h.rollback, h.beforeAdd = true, found
	h.code = codeOf(m.del(s))
	delete(m.holds, s.attachment())
	m.judge(h)
}

func (m *model) gcStep() {
	h := m.happened("GC", sandbox{id: "none", ifName: "eth0"})
	list := []map[string]string{}
	for _, s := range m.made {
		if m.rand.IntN(10) > 0 {
			h.valid = append(h.valid, s)
			list = append(list, map[string]string{"containerID": s.id, "ifname": s.ifName})
		}
	}
	raw, err := json.Marshal(list)
	if err != nil {
		m.t.Fatal(err)
	}
	h.code = codeOf(m.run(m.plugin.Funcs().GC, m.args(h.of, map[string]any{"cni.dev/valid-attachments": json.RawMessage(raw)})))
	maps.DeleteFunc(m.holds, func(id reservation.AttachmentID, _ []netip.Addr) bool {
		return !slices.ContainsFunc(h.valid, func(s sandbox) bool { return s.attachment() == id })
	})
	m.judge(h)
}

// agentStep does to the state what the agent does.
func (m *model) agentStep(what string, do func(*persistence.Tx) error) {
	if m.step == 0 {
		return
	}
	h := m.happened(what, sandbox{})
	if err := persistence.New(persistence.Options{Dir: m.dir}).Update(m.t.Context(), do); err != nil {
		m.t.Fatal(err)
	}
	m.judge(h)
}

func (m *model) sweep(tx *persistence.Tx) error {
	all, err := tx.Reservations(network)
	for _, r := range reservation.Lapsed(all, m.now) {
		if err := tx.DeleteReservation(r.Owner); err != nil {
			return err
		}
	}
	return err
}

func (m *model) annotate(tx *persistence.Tx) error {
	all, err := tx.Attachments(network)
	if err != nil || len(all) == 0 {
		return err
	}
	a := all[m.rand.IntN(len(all))]
	a.Retain, a.WishKnown = time.Duration(m.rand.IntN(3))*5*time.Minute, true
	return tx.PutAttachment(a)
}

// damageStep runs a verb while the state file is gone or damaged, and brings it back.
func (m *model) damageStep() {
	db := filepath.Join(m.dir, "limpet.db")
	sound, err := os.ReadFile(db)
	if err != nil {
		return // a new node has nothing to lose
	}
	used := 4 * os.Getpagesize() // at least; what lies behind may be missing
	damages := map[string][]byte{"missing": nil, "empty": {}, "cut off": sound[:m.rand.IntN(used)]}
	name := []string{"missing", "empty", "cut off"}[m.rand.IntN(3)]
	s, verb := m.newLife(), []string{"ADD", "DEL", "GC"}[m.rand.IntN(3)]
	if verb == "DEL" {
		s = m.any()
	}
	h := m.happened(verb, s)
	h.damage = name
	left := damages[name]
	if err := os.Remove(db); err != nil {
		m.t.Fatal(err)
	}
	if left != nil {
		m.write(db, left)
	}
	before := m.files()
	m.quietly(&h, nil)
	if after := m.files(); !maps.EqualFunc(before, after, bytes.Equal) {
		h.appeared = slices.Sorted(maps.Keys(after))
	}
	m.write(db, sound)
	m.judge(h)
}

// busyStep runs a verb while somebody else keeps the state locked.
func (m *model) busyStep() {
	h := m.happened([]string{"ADD", "DEL", "GC"}[m.rand.IntN(3)], m.newLife())
	h.busy = true
	f, err := os.OpenFile(filepath.Join(m.dir, "limpet.lock"), os.O_RDWR, 0)
	if err != nil {
		return // a new node has no lock yet
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		m.t.Fatal(err)
	}
	m.quietly(&h, m.ipamWith(`{"lockWait":"2ms"}`))
	if err := f.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.judge(h)
}

// quietly runs the verb of h, which is expected to fail and to change nothing.
func (m *model) quietly(h *happened, conf map[string]any) {
	verbs := m.plugin.Funcs()
	switch h.verb {
	case "ADD":
		addrs, err := m.addUncached(h.of, conf)
		h.addrs, h.code = addrs, codeOf(err)
	case "DEL":
		h.code = codeOf(m.run(verbs.Del, m.args(h.of, conf)))
	case "GC":
		none := map[string]any{"cni.dev/valid-attachments": nil}
		maps.Copy(none, conf)
		h.code = codeOf(m.run(verbs.GC, m.args(h.of, none)))
	}
}

// files returns what is in the directory of the state.
func (m *model) files() map[string][]byte {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(m.dir, e.Name())); err != nil {
			m.t.Fatal(err)
		}
	}
	return all
}

func (m *model) write(path string, data []byte) {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		m.t.Fatal(err)
	}
}
