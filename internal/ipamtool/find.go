package ipamtool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// find returns the holders that the operand names.
func (t *Tool) find(ctx context.Context, o options) ([]*Holder, error) {
	near, err := t.near(ctx, o)
	if err != nil {
		return nil, err
	}
	found := match(near, o.operand)
	if len(found) == 0 {
		return nil, notFound(near, o.operand)
	}
	return found, nil
}

// near returns the holders that the operand names or may have meant, and reads no other records.
func (t *Tool) near(ctx context.Context, o options) (near []*Holder, err error) {
	err = o.store(nil).View(ctx, func(tx *persistence.Tx) error {
		records, err := tx.RecordsWith(textsOf(o.operand)...)
		near = t.holders(records, o.network)
		return err
	})
	return near, explain(err, o.dataDir)
}

// textsOf returns texts of which each record has one that a query names or may have meant.
func textsOf(query string) (texts [][]byte) {
	if addr, err := netip.ParseAddr(query); err == nil {
		return append(texts, quoted(addr.Unmap().String()))
	}
	if prefix, err := netip.ParsePrefix(query); err == nil {
		texts = append(texts, quoted(prefix.Addr().Unmap().String()))
	}
	pod := query[strings.LastIndex(query, "/")+1:]
	id := quoted(query)
	return append(texts, append([]byte(`"pod":`), quoted(pod)...), append([]byte(`"id":`), id[:len(id)-1]...))
}

// quoted returns a string as a record has it.
func quoted(s string) []byte {
	text, _ := json.Marshal(s) // a string always encodes
	return text
}

// notFound is the answer to a query that nothing matches, with what it may have meant.
func notFound(near []*Holder, query string) error {
	meant, text := meantBy(near, query), "no attachment or reservation matches "+query
	if len(meant) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(meant, " or "))
	}
	return noError(text)
}

// mostHints is the number of hints in an answer.
const mostHints = 3

// meantBy returns queries that match something: a pod without its namespace, or an address with a prefix length.
func meantBy(near []*Holder, query string) (meant []string) {
	prefix, err := netip.ParsePrefix(query)
	for _, h := range near {
		hint := ""
		switch {
		case err == nil && slices.Contains(h.IPs, prefix.Addr().Unmap()):
			hint = prefix.Addr().Unmap().String()
		case h.Pod != "" && h.Pod == query[strings.LastIndex(query, "/")+1:]:
			hint = h.owner()
		}
		if hint != "" && !slices.Contains(meant, hint) && len(meant) < mostHints {
			meant = append(meant, hint)
		}
	}
	return meant
}
