package cni_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		if m.rand.IntN(4) > 0 { // otherwise only its namespace shows the addresses
			m.cacheWhole(s, addrs)
		}
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
	switch m.rand.IntN(4) {
	case 0: // the DEL is acknowledged, and the namespace keeps the address until it goes
		m.stuck = true
		m.seen["stuck"]++
	case 1, 2:
		delete(m.netns, s.netns())
	}
	h := m.happened("DEL", s)
	h.code = codeOf(m.del(s))
	m.stuck = false
	delete(m.holds, s.attachment())
	m.judge(h)
}

// failingAdd is an ADD after which a plugin later in the chain fails: no cache file is written,
// and the DEL has no earlier result.
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
		if a.Seq == before.newestSeq() && a.Retain > 0 { // its DEL was lost: the ADD reserves and claims in one step
			found[s.owner()] = reservation.Reservation{
				UID: a.UID, ContainerID: id.ContainerID, Addresses: a.Addresses, Deadline: reservation.Deadline{From: m.now, For: a.Retain}, Retain: a.Retain, Mode: a.Mode, Seq: a.Seq,
			}
		}
	}
	m.judge(before)

	h := m.happened("DEL", s)
	h.rollback, h.beforeAdd = true, found
	m.stuck = m.rand.IntN(4) == 0
	h.code = codeOf(m.del(s))
	m.stuck = false
	delete(m.holds, s.attachment())
	m.judge(h)
}

func (m *model) gcStep() {
	h := m.happened("GC", sandbox{id: "none", ifName: "eth0"})
	for _, s := range m.made {
		if m.rand.IntN(10) > 0 {
			h.valid = append(h.valid, s)
			continue
		}
		if !m.has(h.before.Attached[s.attachment()].NetNS, h.before.Attached[s.attachment()].Addresses) {
			_ = os.Remove(m.cacheFile(s)) // as libcni does, if there is one
		}
	}
	h.code = codeOf(m.run(m.plugin.Funcs().GC, m.args(h.of, m.valid(h.valid, nil))))
	maps.DeleteFunc(m.holds, func(id reservation.AttachmentID, addrs []netip.Addr) bool {
		return !m.has(h.before.Attached[id].NetNS, addrs) && !slices.ContainsFunc(h.valid, func(s sandbox) bool { return s.attachment() == id })
	})
	m.judge(h)
}

// valid returns the configuration of a GC that names sandboxes as valid.
func (m *model) valid(all []sandbox, conf map[string]any) map[string]any {
	list := []map[string]string{}
	for _, s := range all {
		list = append(list, map[string]string{"containerID": s.id, "ifname": s.ifName})
	}
	with := map[string]any{"cni.dev/valid-attachments": list}
	maps.Copy(with, conf)
	return with
}

// agentStep changes the state as the agent does.
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
	a.Retain, a.AnnotationsSeen = time.Duration(m.rand.IntN(3))*5*time.Minute, true
	return tx.PutAttachment(a)
}

// damageStep damages the state file and runs a verb, now and then with repair made impossible.
// Then it puts the sound state back.
func (m *model) damageStep() {
	sound, inside := m.files(), maps.Clone(m.inside)
	if len(sound) == 0 {
		return // a new node has nothing to lose
	}
	defer func() { m.inside = inside }()
	h := m.happened([]string{"ADD", "DEL", "GC"}[m.rand.IntN(3)], m.newLife())
	if h.verb == "DEL" {
		h.of = m.any()
	}
	h.valid = m.made
	h.damage = slices.Sorted(maps.Keys(damages))[m.rand.IntN(len(damages))]
	d := damages[h.damage]
	if d.loses == whatFramesHave && !hasFrames(sound["limpet.journal"]) {
		return // nothing is lost: a verb begins a new journal on the fold
	}
	m.harm(d)
	h.hopeless = !d.spare && m.rand.IntN(4) == 0
	if h.hopeless {
		m.forbidRepair()
	}
	damaged := m.files()
	m.quietly(&h, nil)
	left := m.files()
	for name, data := range damaged {
		h.changed = h.changed || name != "limpet.marker" && !bytes.Equal(data, left[name])
	}
	h.kept = m.setAside(damaged, left)
	m.judge(h)
	m.putBack(sound)
}

// hasFrames reports whether there were commits since the fold on which a journal stands. Behind them are those of an earlier
// use of the file.
func hasFrames(journal []byte) bool {
	const generationAt, firstFrameAt = len("limpet journal 1\n") + 1, 4096 + 12
	return len(journal) > firstFrameAt+8 && binary.LittleEndian.Uint64(journal[firstFrameAt:]) == binary.LittleEndian.Uint64(journal[generationAt:])+1
}

// setAside reports whether each file of a damaged state has a copy.
func (m *model) setAside(damaged, left map[string][]byte) bool {
	for _, name := range []string{"limpet.db", "limpet.db.2", "limpet.journal", "limpet.journal.last"} {
		data, was := damaged[name]
		kept := !was
		for copied, now := range left {
			kept = kept || strings.HasPrefix(copied, name+".damaged-") && bytes.Equal(now, data)
		}
		if !kept {
			return false
		}
	}
	return true
}

// busyStep runs a verb while another process holds the lock.
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

// quietly runs the verb of h without a change to the model. What an ADD hands out counts until
// the step is judged.
func (m *model) quietly(h *happened, conf map[string]any) {
	verbs := m.plugin.Funcs()
	switch h.verb {
	case "ADD":
		addrs, err := m.addUncached(h.of, conf)
		h.addrs, h.code = addrs, codeOf(err)
	case "DEL":
		h.code = codeOf(m.run(verbs.Del, m.args(h.of, conf)))
	case "GC":
		h.code = codeOf(m.run(verbs.GC, m.args(h.of, m.valid(h.valid, conf))))
	}
}
