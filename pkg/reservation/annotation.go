package reservation

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
)

// NetworkSelections are the annotations by which a pod selects networks of Multus: secondary ones, and another default
// network. The cni-args of a network may have RetainAnnotation and ModeAnnotation as keys.
var NetworkSelections = []string{"k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network"}

// ParseKeep reads the value of RetainAnnotation or KeepAnnotation: a Go duration, rounded up to whole minutes, or a number
// of minutes. A value that is negative or neither becomes 0, a value above the limit becomes the limit, each with a warning.
func ParseKeep(annotation, value string, limit time.Duration) (retain time.Duration, warning string) {
	text := strings.TrimSpace(shorten(value))
	minutes, err := strconv.ParseInt(text, 10, 64)
	if digits := strings.Trim(text, "0123456789") == ""; err != nil && !digits || text == "" {
		retain, err = time.ParseDuration(text)
	} else { // ParseInt returns the largest number for one out of range
		retain, err = time.Duration(min(max(minutes, -1), int64(math.MaxInt64/time.Minute)))*time.Minute, nil
	}
	switch {
	case err != nil || retain < 0:
		return 0, fmt.Sprintf("annotation %s: %q is neither a duration nor a number of minutes, nothing is kept; remedy: a value such as \"10m\"", annotation, shorten(value))
	case retain > limit:
		return limit, fmt.Sprintf("annotation %s: %q exceeds the maximum of %s; the maximum is used", annotation, shorten(value), limit)
	}
	return min((retain + time.Minute - 1).Truncate(time.Minute), limit), ""
}

// Asks reports whether a pod's annotations say for how long its addresses are kept, even if not at all.
func Asks(annotations map[string]string) bool {
	_, retain := annotations[RetainAnnotation]
	_, keep := annotations[KeepAnnotation]
	return retain || keep || annotations[ModeAnnotation] == Follow.String()
}

// ParseMode reads the value of ModeAnnotation. An unknown value means Preferred, with a warning.
func ParseMode(value string) (mode Mode, warning string) {
	switch value {
	case Required.String():
		return Required, ""
	case Follow.String():
		return Follow, ""
	case Preferred.String():
		return Preferred, ""
	}
	return Preferred, fmt.Sprintf("annotation %s: %q is neither %q nor %q nor %q; %q is used",
		ModeAnnotation, shorten(value), Required, Follow, Preferred, Preferred)
}

// ShortRequest returns annotations with short values for RetainAnnotation, KeepAnnotation and ModeAnnotation, from which
// the same is read as from the original ones. It serves those who keep the annotations of many pods.
func ShortRequest(annotations map[string]string) map[string]string {
	short := annotations
	for _, key := range []string{RetainAnnotation, KeepAnnotation, ModeAnnotation} {
		if value := annotations[key]; len(value) > longestValue {
			short = maps.Clone(short)
			short[key] = shorten(value)
		}
	}
	return short
}

// longestValue is the length to which values are cut.
const longestValue = 64

// shorten cuts a value for logs and answers; annotations can be 256 KiB long.
func shorten(value string) string {
	if len(value) <= longestValue {
		return value
	}
	return value[:longestValue] + "…"
}
