package differential_test

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// holder is a container's interface.
type holder struct{ id, ifName string }

// take runs a step on both and says whether and why the answers differ. Then it brings
// host-local to the state of limpet-ipam, so that the next step finds both in the same state.
// It reports false where that is impossible.
func (p *pair) take(s step) (title string, follows bool) {
	p.t.Helper()
	before := p.snapshot()
	theirs, ours := p.ask(s)
	title, explained := explain(s, theirs, ours)
	if !explained {
		p.t.Fatalf("%s\nhost-local:  %+v\nlimpet-ipam: %+v", s, theirs, ours)
	}
	switch s.verb {
	case "ADD":
		return title, p.followAdd(s, before, theirs, ours)
	case "DEL":
		p.followEnd(s, theirs, ours)
	case "GC":
		p.followGC(s, ours)
	}
	return title, true
}

// followAdd undoes the effects of a failing ADD of host-local: a moved cursor, or freed
// addresses of a living container.
func (p *pair) followAdd(s step, before snapshot, theirs, ours outcome) bool {
	switch {
	case ours.failed():
		p.restore(before)
		return true
	case theirs.failed():
		return false
	}
	p.attached[holder{s.id, s.ifName}] = true
	return cmp.Equal(theirs.Result, ours.Result)
}

// followEnd ends in host-local a container that only limpet-ipam could end.
func (p *pair) followEnd(s step, theirs, ours outcome) {
	if ours.failed() {
		return
	}
	if theirs.failed() {
		p.end(holder{s.id, s.ifName})
	}
	delete(p.attached, holder{s.id, s.ifName})
}

// followGC ends in host-local the containers that limpet-ipam's GC ended: host-local's GC does
// nothing.
func (p *pair) followGC(s step, ours outcome) {
	var conf struct {
		Valid []struct{ ContainerID, IfName string } `json:"cni.dev/valid-attachments"`
	}
	if ours.failed() || !has(s, "cni.dev/valid-attachments") || json.Unmarshal([]byte(s.conf), &conf) != nil {
		return
	}
	for _, h := range slices.Collect(maps.Keys(p.attached)) {
		listed := slices.ContainsFunc(conf.Valid, func(v struct{ ContainerID, IfName string }) bool {
			return v.ContainerID == h.id && v.IfName == h.ifName
		})
		if !listed {
			p.end(h)
			delete(p.attached, h)
		}
	}
}

func (p *pair) end(h holder) {
	o := p.run(p.hostLocal, p.hostState, step{verb: "DEL", id: h.id, ifName: h.ifName, conf: p.plain})
	if o.failed() {
		p.t.Fatalf("host-local does not end %v: %+v", h, o)
	}
}
