package plan

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// PluginVerb is what the agent counts of one line in the log of limpet-ipam.
type PluginVerb struct {
	Name    string // ADD, DEL, CHECK, GC, STATUS
	Outcome string // of verbOutcomes, or other
	Code    string // of verbCodes, or other; "" without an error
	Took    time.Duration
}

// otherValue is the value of a label in place of any value that is not listed.
const otherValue = "other"

// longestVerb is more than a verb can take: the runtime gives it up within minutes.
const longestVerb = time.Hour

var (
	verbNames    = []string{"ADD", "DEL", "CHECK", "GC", "STATUS"}
	verbOutcomes = []string{"new", "reclaimed", "claimed", "reserved", "freed", "unknown", "unrepaired", "ended", "ok", "refused", "failed"}
	// verbCodes are those of the CNI specification that limpet-ipam answers with, and its own.
	verbCodes = []uint{4, 5, 6, 7, 11, 50, 100, 101, 102, 103, 104}
)

// UsualVerbs are the pairs of verb and outcome that each node sees. Their series exist from
// the start, so that the first event counts in a rate.
func UsualVerbs() []PluginVerb {
	return []PluginVerb{
		{Name: "ADD", Outcome: "new"},
		{Name: "ADD", Outcome: "claimed"},
		{Name: "ADD", Outcome: "refused"},
		{Name: "ADD", Outcome: "failed"},
		{Name: "DEL", Outcome: "reserved"},
		{Name: "DEL", Outcome: "freed"},
		{Name: "DEL", Outcome: "unknown"},
		{Name: "DEL", Outcome: "failed"},
	}
}

// ReadVerb reads one line of the log. A line is not believed where a value of a label could
// be a new one, or where the duration is not one of a verb. ok is false for such a line;
// counted is false for an entry about something else, such as a release by hand.
func ReadVerb(line []byte) (v PluginVerb, counted, ok bool) {
	var entry struct {
		Verb    string   `json:"verb"`
		Outcome string   `json:"outcome"`
		Code    uint     `json:"code"`
		Millis  *float64 `json:"ms"`
	}
	if err := json.Unmarshal(line, &entry); err != nil || entry.Millis == nil {
		return PluginVerb{}, false, false
	}
	millis := *entry.Millis
	if millis < 0 || millis > float64(longestVerb/time.Millisecond) {
		return PluginVerb{}, false, false
	}
	if !slices.Contains(verbNames, entry.Verb) {
		return PluginVerb{}, false, entry.Verb == "RELEASE"
	}
	v = PluginVerb{Name: entry.Verb, Outcome: otherValue, Took: time.Duration(millis * float64(time.Millisecond))}
	if slices.Contains(verbOutcomes, entry.Outcome) {
		v.Outcome = entry.Outcome
	}
	if entry.Code != 0 {
		v.Code = otherValue
		if slices.Contains(verbCodes, entry.Code) {
			v.Code = strconv.FormatUint(uint64(entry.Code), 10)
		}
	}
	return v, true, true
}
