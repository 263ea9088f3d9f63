package plan

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNoNetwork means that a node has no network configuration yet that could be adopted.
var ErrNoNetwork = errors.New("the node has no network configuration yet")

// Adopted is a network configuration that the agent has patched, as it is recorded on the node.
type Adopted struct {
	Name string `json:"name"`
	// Original is the whole content before the patch.
	Original []byte `json:"original"`
	// Patched is the checksum of the content since then.
	Patched [sha256.Size]byte `json:"patched"`
	// Replaced is the checksum of the patch before that, of the same original. The file still has it if the agent ends
	// between the record and the patch.
	Replaced *[sha256.Size]byte `json:"replaced,omitempty"`
}

// AdoptInput is what the agent knows about the network configurations of its node.
type AdoptInput struct {
	// First is the file that the runtime uses; nil for none. Problem says why it cannot be read.
	First   *ConfigFile
	Problem error
	// Content is the content of recorded files, by name. Files that are missing, too large or no files have none.
	Content map[string][]byte
	Records []Adopted
	Options PluginOptions
	// Binaries are the interface plugins in the directory in which the agent installs limpet-ipam.
	Binaries []string
	// Accepts returns why limpet-ipam would refuse a configuration.
	Accepts func(conf []byte) error
	// Patches are the patches of the last hour, also those that failed, the oldest first.
	Patches []time.Time
	Now     time.Time
}

// AdoptDecision is what the agent does to the network configuration of its node.
type AdoptDecision struct {
	// Patched is the new content of the first file; nil to leave it as it is.
	Patched []byte
	// Records are stored before the patch.
	Records []Adopted
	// Err says why the file is left as it is, although limpet-ipam is not in use.
	Err error
}

// Adopt decides how limpet-ipam takes the place of host-local in the network that the runtime uses. A file that
// names limpet-ipam already, and that the agent has not patched, belongs to the operator.
func Adopt(in AdoptInput) AdoptDecision {
	d := AdoptDecision{Records: in.current()}
	if in.First == nil {
		d.Err = ErrNoNetwork
		return d
	}
	if d.Err = in.Problem; d.Err != nil {
		return d
	}
	record := Adopted{Name: in.First.Name, Original: in.First.Data}
	if r := in.recordOf(in.First.Name); r != nil && r.is(in.First.Data) {
		sum := sha256.Sum256(in.First.Data)
		record.Original, record.Replaced = r.Original, &sum // patched again where the options have changed
	}
	patched, err := patch(record.Original, in.Options, in.Accepts)
	switch {
	case errors.Is(err, errOwn) || err == nil && bytes.Equal(patched, in.First.Data):
		return d
	case err == nil:
		err = in.findable(patched)
	}
	if err != nil {
		d.Err = fmt.Errorf("%s is left as it is: %w", in.First.Name, err)
		return d
	}
	if d.Err = Contested(in.First.Name, in.Patches, in.Now); d.Err != nil {
		return d
	}
	d.Patched, record.Patched = patched, sha256.Sum256(patched)
	d.Records = append(slices.DeleteFunc(d.Records, func(r Adopted) bool { return r.Name == record.Name }), record)
	return d
}

// findable returns an error if the runtime seems to look for plugins elsewhere. It would not find limpet-ipam.
func (in AdoptInput) findable(patched []byte) error {
	conf, err := decodeObject(patched)
	if err != nil {
		return err
	}
	for _, plugin := range pluginsOf(conf) {
		ipam, _ := plugin["ipam"].(object)
		name, _ := plugin["type"].(string)
		if ipam["type"] == PluginName && !slices.Contains(in.Binaries, name) {
			return fmt.Errorf("plugin %.64q is not in the directory of --cni-bin-dir: run the agent with the directory in which the runtime looks for plugins", name)
		}
	}
	return nil
}

// mostAbsent bounds the records of files that cannot be read. An owner may write each time under another name.
const mostAbsent = 8

// current returns the records of files that still name limpet-ipam, or that cannot be read now: the owner may put the
// patched file back. Other files were replaced by their owner.
func (in AdoptInput) current() []Adopted {
	var current []Adopted
	absent := 0
	for _, r := range slices.Backward(in.Records) { // the newest is the last
		content, is := in.Content[r.Name]
		if !is {
			absent++
		}
		if !is && absent <= mostAbsent || is && (r.is(content) || FindIPAM([]ConfigFile{{r.Name, content}}).By == IPAMLimpet) {
			current = append(current, r)
		}
	}
	slices.Reverse(current)
	return current
}

func (in AdoptInput) recordOf(name string) *Adopted {
	if i := slices.IndexFunc(in.Records, func(r Adopted) bool { return r.Name == name }); i >= 0 {
		return &in.Records[i]
	}
	return nil
}

// is reports whether a content is that of the patch, or that of the patch before.
func (a Adopted) is(content []byte) bool {
	sum := sha256.Sum256(content)
	return sum == a.Patched || a.Replaced != nil && sum == *a.Replaced
}

// Wrote reports whether a content, or its beginning, is one that the agent has written or replaced. It may be deleted.
func (a Adopted) Wrote(content []byte) bool {
	return a.is(content) || bytes.HasPrefix(a.Original, content)
}

// The bounds of a dispute with a program that changes the network configuration back. Each change makes the runtime
// load its network again.
const (
	patchesAtOnce = 5
	firstPause    = 10 * time.Second
	longestPause  = 5 * time.Minute
	// PatchMemory is how long a patch counts.
	PatchMemory = time.Hour
)

// Contested returns an error before the time of the next patch of a file: the pause doubles with each of the last hour.
func Contested(name string, patches []time.Time, now time.Time) error {
	n := len(patches)
	if n < patchesAtOnce {
		return nil
	}
	pause := longestPause
	if doubled := n - patchesAtOnce; doubled < 5 {
		pause = min(firstPause<<doubled, longestPause)
	}
	until := patches[n-1].Add(pause)
	if !until.After(now) {
		return nil
	}
	return fmt.Errorf("%s was changed back, or its patch failed, %d times within an hour: the next patch is at %s", name, n, until.UTC().Format(time.RFC3339))
}

// Restoration is what an uninstallation does to patched network configurations.
type Restoration struct {
	// Files get their original content if they still have the content of the patch.
	Files []ConfigFile
	// Left says of each other file why it is left as it is.
	Left []error
}

// Restore decides which network configurations get their original content.
func Restore(records []Adopted, content map[string][]byte) Restoration {
	var to Restoration
	for _, r := range records {
		is, exists := content[r.Name]
		switch {
		case !exists:
			to.Left = append(to.Left, fmt.Errorf("%s, which the agent has patched, is missing or no regular file: uninstall with the --cni-conf-dir of the agent; if the file is gone for good, remove limpet.adopted from the state directory", r.Name))
		case r.is(is):
			to.Files = append(to.Files, ConfigFile{r.Name, r.Original})
		case FindIPAM([]ConfigFile{{r.Name, is}}).By == IPAMLimpet:
			to.Left = append(to.Left, fmt.Errorf("%s was changed after the agent had patched it: set its ipam.type back to %s", r.Name, hostLocal))
		}
	}
	return to
}
