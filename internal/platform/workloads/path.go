package workloads

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errPath is returned for a path that leads to no number.
var errPath = errors.New("path leads to no number")

// sumOf adds up the numbers at some paths of an object. The parts of a path are separated by
// dots; a number is an index of a list.
func sumOf(object map[string]any, paths []string) (int32, error) {
	sum := int64(0)
	for _, path := range paths {
		var at any = object
		for part := range strings.SplitSeq(path, ".") {
			at = step(at, part)
		}
		n, ok := at.(int64)
		if !ok {
			return 0, fmt.Errorf("%w: %s", errPath, path)
		}
		sum += int64(within(n))
	}
	return within(sum), nil
}

// step follows one part of a path; nil where it leads nowhere.
func step(at any, part string) any {
	switch o := at.(type) {
	case map[string]any:
		return o[part]
	case []any:
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(o) {
			return o[i]
		}
	}
	return nil
}
