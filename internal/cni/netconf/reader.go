package netconf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// decode reads the keys. With a *json.UnmarshalTypeError every key of the right type is decoded all the same.
func (f *file) decode(stdin []byte) error {
	if readJSON(stdin, f.fields()) {
		return nil
	}
	*f = file{}
	return json.Unmarshal(stdin, f)
}

// fields are the keys, for reader.
func (f *file) fields() []field {
	return []field{
		{"cniVersion", &f.CNIVersion},
		{"name", &f.Name},
		{"type", &f.Type},
		{"isDefaultGateway", &f.IsDefaultGateway},
		{"prevResult", &f.PrevResult},
		{"cni.dev/valid-attachments", &f.ValidAttachments},
		{"capabilities", &f.Capabilities},
		{"runtimeConfig", []field{
			{"io.kubernetes.cri.pod-annotations", &f.RuntimeConfig.Annotations},
			{"ips", &f.RuntimeConfig.IPs},
			{"ipRanges", &f.RuntimeConfig.IPRanges},
		}},
		{"args", []field{{"cni", []field{
			{"ips", &f.Args.CNI.IPs},
			{reservation.RetainAnnotation, &f.Args.CNI.Retain},
			{reservation.ModeAnnotation, &f.Args.CNI.Mode},
			{reservation.OwnerAnnotation, &f.Args.CNI.Owner},
		}}}},
		{"ipam", &f.IPAM},
	}
}

func (k *ipamKeys) fields() []field {
	return append(
		k.rangeKeys.fields(),
		field{"ranges", &k.Ranges},
		field{"routes", &k.Routes},
		field{"dataDir", &k.DataDir},
		field{"resolvConf", &k.ResolvConf},
		field{"maxReservation", &k.MaxReservation},
		field{"maxReservedPercent", &k.MaxReservedPercent},
		field{"maxReservedPerNamespace", &k.MaxReservedPerNamespace},
		field{"maxReservedPercentPerNamespace", &k.MaxReservedPercentPerNamespace},
		field{"onExhaustion", &k.OnExhaustion},
		field{"releaseDelay", &k.ReleaseDelay},
		field{"predecessorWait", &k.PredecessorWait},
		field{"addWait", &k.AddWait},
		field{"lockWait", &k.LockWait},
		field{"mirrorHostLocal", &k.MirrorHostLocal},
		field{"node", &k.Node},
		field{"logFile", &k.LogFile},
		field{"logMaxBytes", &k.LogMaxBytes},
	)
}

func (k *rangeKeys) fields() []field {
	return []field{{"subnet", &k.Subnet}, {"rangeStart", &k.RangeStart}, {"rangeEnd", &k.RangeEnd}, {"gateway", &k.Gateway}}
}

// reader reads JSON that is known to be valid. It knows the usual values of a configuration only: encoding/json reads a
// configuration with another value. The first use of encoding/json for a type costs 0.2 ms, and each verb is a process.
type reader struct {
	left    []byte
	unusual bool
}

// field is a key of an object and where its value goes.
type field struct {
	key string
	to  any
}

// readJSON reads a value. It reports false for one that encoding/json has to read.
func readJSON(data []byte, to any) bool {
	if !json.Valid(data) {
		return false
	}
	r := reader{left: data}
	r.value(to)
	return !r.unusual
}

func (r *reader) value(to any) {
	switch to := to.(type) {
	case []field:
		r.object(to)
	case **ipamKeys:
		*to = new(ipamKeys)
		r.object((*to).fields())
	case *[][]rangeKeys:
		*to = [][]rangeKeys{}
		r.each('[', ']', func() { *to = append(*to, r.ranges()) })
	case *[]*types.Route:
		*to = []*types.Route{}
		r.each('[', ']', func() { *to = append(*to, r.route()) })
	case *string:
		*to = r.text()
	case *json.RawMessage:
		*to = r.raw()
	case *bool:
		literal := string(r.raw())
		*to = literal == "true"
		r.unusual = r.unusual || literal != "true" && literal != "false"
	case **int:
		*to = new(int(r.integer(strconv.IntSize)))
	case **int64:
		*to = new(r.integer(64))
	case *[]string:
		*to = []string{}
		r.each('[', ']', func() { *to = append(*to, r.text()) })
	case *map[string]string:
		*to = map[string]string{}
		r.each('{', '}', func() { key := r.key(); (*to)[key] = r.text() })
	default:
		r.unusual = true
	}
}

// object reads an object. A key is unusual that is there twice, or that is a known one in other cases.
func (r *reader) object(fields []field) {
	seen := make([]bool, len(fields))
	r.each('{', '}', func() {
		key := r.key()
		n := slices.IndexFunc(fields, func(f field) bool { return strings.EqualFold(f.key, key) })
		if n < 0 {
			r.raw()
			return
		}
		r.unusual = r.unusual || seen[n] || fields[n].key != key
		seen[n] = true
		r.value(fields[n].to)
	})
}

// each calls fn before each element of an object or an array.
func (r *reader) each(begin, end byte, fn func()) {
	if r.unusual = r.unusual || r.peek() != begin; r.unusual {
		return
	}
	for r.left = r.left[1:]; !r.unusual; {
		switch r.peek() {
		case end:
			r.left = r.left[1:]
			return
		case ',':
			r.left = r.left[1:]
		default:
			fn()
		}
	}
}

// key reads a key and its colon.
func (r *reader) key() string {
	key := r.text()
	r.peek()
	r.left = r.left[1:]
	return key
}

func (r *reader) ranges() []rangeKeys {
	ranges := []rangeKeys{}
	r.each('[', ']', func() {
		var one rangeKeys
		r.object(one.fields())
		ranges = append(ranges, one)
	})
	return ranges
}

// parseRoutes reads ipam.routes.
func parseRoutes(raw json.RawMessage) (routes []*types.Route, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if readJSON(raw, &routes) {
		return routes, nil
	}
	routes = nil
	if err := json.Unmarshal(raw, &routes); err != nil {
		return nil, fmt.Errorf("ipam.routes: %w: %w", err, ErrConfig)
	}
	if slices.Contains(routes, nil) { // the library would panic on it
		return nil, fmt.Errorf("ipam.routes: null is no route: %w", ErrConfig)
	}
	return routes, nil
}

// route reads a route with its two everyday keys.
func (r *reader) route() *types.Route {
	var dst, gw string
	r.object([]field{{"dst", &dst}, {"gw", &gw}, {"mtu", nil}, {"advmss", nil}, {"priority", nil}, {"table", nil}, {"scope", nil}})
	route := &types.Route{}
	subnet, err := types.ParseCIDR(dst)
	if r.unusual = r.unusual || err != nil || route.GW.UnmarshalText([]byte(gw)) != nil; !r.unusual {
		route.Dst = *subnet
	}
	return route
}

func (r *reader) text() (text string) {
	raw := r.raw()
	switch {
	case raw[0] != '"':
		r.unusual = true
	case slices.ContainsFunc(raw, func(c byte) bool { return c == '\\' || c >= 0x80 }):
		r.unusual = r.unusual || json.Unmarshal(raw, &text) != nil
	default:
		text = string(raw[1 : len(raw)-1])
	}
	return text
}

func (r *reader) integer(bits int) int64 {
	n, err := strconv.ParseInt(string(r.raw()), 10, bits)
	r.unusual = r.unusual || err != nil
	return n
}

// peek skips white space and returns the next byte.
func (r *reader) peek() byte {
	for isSpace(r.left[0]) {
		r.left = r.left[1:]
	}
	return r.left[0]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// raw returns the next value as it is.
func (r *reader) raw() []byte {
	r.peek()
	n := lengthOf(r.left)
	raw := r.left[:n:n]
	r.left = r.left[n:]
	return raw
}

// lengthOf returns the length of the value at the beginning.
func lengthOf(data []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth < 0 { // of the object around a number, true, false or null
				return i
			}
		case depth == 0 && (c == ',' || isSpace(c)): // as above
			return i
		default:
			continue
		}
		if depth == 0 && !quoted {
			return i + 1
		}
	}
	return len(data)
}
