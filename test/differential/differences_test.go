package differential_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// difference is one way in which limpet-ipam answers differently on purpose. Its
// title and its reason are in docs/use/host-local.md too.
type difference struct {
	title string
	// explains reports whether the answers to a step differ for this reason.
	explains func(s step, theirs, ours outcome) bool
}

// differences lists all of them. A difference that none explains is a defect.
var differences = []difference{
	{"DEL works with a configuration that would not do for ADD", func(s step, theirs, ours outcome) bool {
		return s.verb == "DEL" && theirs.Code == 999 && !ours.failed()
	}},
	{"CHECK compares with prevResult, and looks at nothing else", func(s step, theirs, ours outcome) bool {
		if s.verb != "CHECK" {
			return false
		}
		ends := theirs.Code == 999 && !strings.Contains(theirs.Msg, "Failed to find address")
		return ends && (!ours.failed() || ours.Code == 103) || !theirs.failed() && ours.Code == 103 && has(s, "prevResult")
	}},
	{"GC ends what is not valid", func(s step, theirs, ours outcome) bool {
		return s.verb == "GC" && !theirs.failed() && ours.Code == 7 // a list that is none
	}},
	{"STATUS fails where each ADD must fail", func(s step, theirs, ours outcome) bool {
		return s.verb == "STATUS" && !theirs.failed() && ours.Code == 50 && strings.Contains(ours.Msg, "addresses cannot be handed out")
	}},
	{"One attachment, one ADD", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && ours.Code == 102
	}},
	{"The first of several requested addresses counts", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && asksForSeveral(s) && (!theirs.failed() || strings.HasPrefix(theirs.Msg, "failed to allocate")) && (!ours.failed() || ours.Code == 104)
	}},
	{"Requested addresses are looked at first", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && ours.Code == 104 && theirs.Code == 999 && strings.HasPrefix(theirs.Msg, "failed to allocate")
	}},
	{"A range may not start behind its end", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && !theirs.failed() && ours.Code == 7 && strings.Contains(ours.Msg, "RangeStart")
	}},
	{"A range has an address that is not its gateway", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && theirs.failed() && ours.Code == 7 && strings.Contains(ours.Msg, "the gateway is its only address")
	}},
	{"A route is no null", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && strings.Contains(s.conf, `"routes":[null]`) && ours.Code == 7 && strings.Contains(ours.Msg, "null is no route")
	}},
	{"The directory of the state is an absolute path", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && !theirs.failed() && ours.Code == 7 && strings.Contains(ours.Msg, "is not an absolute path")
	}},
	{"A pod's names are known arguments", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && strings.HasPrefix(theirs.Msg, `ARGS: unknown args ["K8S_POD_`) && !ours.failed()
	}},
	{"What is not understood is named by its key", func(s step, theirs, ours outcome) bool {
		nameless := strings.HasPrefix(theirs.Msg, "json: cannot unmarshal") || strings.Contains(theirs.Msg, "IP <nil> not v4 nor v6") || theirs.Msg == "invalid CIDR address: "
		return theirs.Code == 999 && nameless && ours.Code == 7 && keyed.MatchString(ours.Msg)
	}},
	{"A key that is not used may hold anything", func(s step, theirs, ours outcome) bool {
		return strings.HasPrefix(theirs.Msg, "json: cannot unmarshal") && !ours.failed()
	}},
	{"A released address waits", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && strings.Contains(s.conf, "releaseDelay") && !theirs.failed() && !ours.failed()
	}},
	{"A rebuilt pod succeeds to its addresses", func(s step, theirs, ours outcome) bool {
		return s.verb == "ADD" && strings.Contains(s.args, "K8S_POD_NAME=again") && !theirs.failed() && !ours.failed()
	}},
}

// keyed is a message that begins with a key of the configuration.
var keyed = regexp.MustCompile(`^(ipam|args|runtimeConfig|name)\b`)

// codes are those of limpet-ipam; host-local answers 999 to every error.
var codes = []struct {
	text string
	code uint
}{
	{"has been allocated to", 102},
	{"no IP addresses available in range set", 100},
	{"requested", 104},
	{"Failed to find address added by container", 103},
	{"ARGS:", 4},
	{"", 7},
}

// same reports whether two answers mean the same: equal results, or an error with
// host-local's text in it and the code that fits.
func same(theirs, ours outcome) bool {
	if theirs.failed() != ours.failed() {
		return false
	}
	if !theirs.failed() {
		return cmp.Equal(theirs.Result, ours.Result)
	}
	want := theirs.Code
	if want == 999 {
		i := slices.IndexFunc(codes, func(c struct {
			text string
			code uint
		},
		) bool {
			return strings.Contains(theirs.Msg, c.text)
		})
		want = codes[i].code
	}
	text := strings.TrimPrefix(theirs.Msg, "host-local: ")
	return ours.Code == want && strings.Contains(ours.Msg, text) && ours.Details == theirs.Details
}

// explain returns the title of the difference, "" when there is none.
func explain(s step, theirs, ours outcome) (title string, explained bool) {
	if same(theirs, ours) {
		return "", true
	}
	for _, d := range differences {
		if d.explains(s, theirs, ours) {
			return d.title, true
		}
	}
	return "", false
}

func has(s step, key string) bool {
	var conf map[string]json.RawMessage
	return json.Unmarshal([]byte(s.conf), &conf) == nil && conf[key] != nil
}

// asksForSeveral reports whether more than one address is asked for by number.
func asksForSeveral(s step) bool {
	var conf struct {
		Args          struct{ CNI struct{ IPs []string } }
		RuntimeConfig struct{ IPs []string }
	}
	_ = json.Unmarshal([]byte(s.conf), &conf) // what is no list of addresses asks for none
	n := len(conf.Args.CNI.IPs) + len(conf.RuntimeConfig.IPs)
	if strings.Contains(s.args, "IP=") {
		n++
	}
	return n > 1
}
