package persistence

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Records are JSON with short keys: any bbolt browser can show them. The names in the key of a record are repeated in the
// record, so that the record can be understood alone. The last key is a checksum of everything before it. A newer version adds
// keys before the checksum and behind all others, and this one ignores them.

const (
	sumKey  = `,"sum":"`
	sumSize = len(sumKey) + 8 + len(`"}`)
)

// seal adds the checksum to a record that has no closing brace.
func seal(data []byte) []byte {
	body := data
	return append(appendSum(append(data, sumKey...), body), `"}`...)
}

// appendSum appends the checksum of a record as text.
func appendSum(to, body []byte) []byte {
	return hex.AppendEncode(to, binary.BigEndian.AppendUint32(make([]byte, 0, 4), crc32.ChecksumIEEE(body)))
}

// unseal checks a record and returns it without its checksum and the closing brace.
func unseal(data []byte) ([]byte, error) {
	at := len(data) - sumSize
	if at <= 0 || string(data[at:at+len(sumKey)]) != sumKey {
		return nil, errors.New("record without a checksum")
	}
	body, want := data[:at], data[at+len(sumKey):len(data)-2]
	if got := appendSum(make([]byte, 0, 8), body); string(got) != string(want) {
		return nil, fmt.Errorf("checksum %s, want %s", string(got), string(want)) // copies: the others stay on the stack
	}
	return body, nil
}

// form writes records, and reads them: one function names the fields of a record for both, in their order. The first use of
// encoding/json for a type costs 0.2 ms, and each verb is a process.
type form struct {
	data  []byte // written so far
	left  string // left to read; the texts of a record are parts of it
	reads bool
	err   error
}

// errOtherForm is returned for a record that has another form than form writes.
var errOtherForm = errors.New("other form")

// encode returns a record with its checksum.
func encode(fields func(*form)) ([]byte, error) {
	f := form{data: make([]byte, 0, 512)}
	if fields(&f); f.err != nil {
		return nil, f.err
	}
	return seal(f.data), nil
}

// reading returns the form of a record that is read. Like its fields, it stays on the stack: a state may have a million.
func reading(data []byte) form {
	body, err := unseal(data)
	return form{left: string(body), reads: true, err: err}
}

// end returns why a record could not be read.
func (f *form) end() error {
	if f.err == nil && len(f.left) > 0 && f.left[0] != ',' {
		f.err = errOtherForm
	}
	if f.err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", f.err, ErrDamaged)
}

// at writes or reads what stands before a value. It reports whether the value is to be written or read.
func (f *form) at(before string) bool {
	switch {
	case f.err != nil:
	case !f.reads:
		f.data = append(f.data, before...)
	case f.next(before):
		f.left = f.left[len(before):]
	default:
		f.err = errOtherForm
	}
	return f.err == nil
}

// may is at for a value that is left out when it is zero.
func (f *form) may(before string, zero bool) bool {
	if f.reads && !f.next(before) || !f.reads && zero {
		return false
	}
	if f.reads && f.err == nil {
		f.left = f.left[len(before):]
		return true
	}
	return f.at(before)
}

// next reports whether the text comes next.
func (f *form) next(text string) bool {
	return len(f.left) >= len(text) && f.left[:len(text)] == text // strings.HasPrefix is two calls in the plugin
}

// plain returns the length of the longest beginning of a text that JSON has without escapes.
func plain(text string) int {
	const low = uint64(1<<' ' - 1 | 1<<'"' | 1<<'&' | 1<<'<' | 1<<'>') // of the first 64 characters
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c == '\\' || c < 64 && low>>c&1 > 0 {
			return i
		}
	}
	return len(text)
}

// quoted reads a text.
func (f *form) quoted() string {
	quoted := f.left
	if f.err == nil && (quoted == "" || quoted[0] != '"') {
		f.err = errOtherForm
	}
	if f.err != nil {
		return ""
	}
	f.left = quoted[1:]
	n := plain(f.left)
	end := n
	for ; end < len(f.left) && f.left[end] != '"'; end++ {
		if f.left[end] == '\\' {
			end++
		}
	}
	if end >= len(f.left) {
		f.err = errOtherForm
		return ""
	}
	f.left = f.left[end+1:]
	if end == n {
		return quoted[1 : n+1]
	}
	return f.unquoted(quoted[:end+2])
}

// unquoted returns a text with escapes.
func (f *form) unquoted(quoted string) (text string) {
	if json.Unmarshal([]byte(quoted), &text) != nil {
		f.err = errOtherForm
	}
	return text
}

func (f *form) text(before string, v *string) {
	if f.at(before) {
		f.string(v)
	}
}

func (f *form) mayText(before string, v *string) {
	if f.may(before, *v == "") {
		f.string(v)
	}
}

func (f *form) string(v *string) {
	if f.reads {
		*v = f.quoted()
	} else {
		f.data = appendText(f.data, *v)
	}
}

// integer writes or reads an integer.
func integer[T ~int | ~int64 | ~uint64 | ~uint8](f *form, before string, v *T) {
	switch {
	case !f.at(before):
		return
	case !f.reads:
		f.data = appendInteger(f.data, *v)
		return
	}
	n, size := 0, uint64(0)
	if f.next("-") {
		n = 1
	}
	for ; n < len(f.left) && '0' <= f.left[n] && f.left[n] <= '9'; n++ {
		size = 10*size + uint64(f.left[n]-'0')
	}
	if *v = T(size); f.next("-") {
		*v = -*v
	}
	var again [20]byte
	if string(appendInteger(again[:0], *v)) != f.left[:n] { // no number, one with a leading zero, or too large for its type
		f.err = errOtherForm
	}
	f.left = f.left[n:]
}

func mayInteger[T ~int | ~int64 | ~uint64 | ~uint8](f *form, before string, v *T) {
	if f.may(before, *v == 0) {
		integer(f, "", v)
	}
}

func appendInteger[T ~int | ~int64 | ~uint64 | ~uint8](b []byte, v T) []byte {
	if v < 0 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendUint(b, uint64(v), 10)
}

// mayTrue writes or reads a truth value that is left out when it is false.
func (f *form) mayTrue(before string, v *bool) {
	if f.may(before, !*v) {
		*v = f.at("true")
	}
}

// wall writes or reads a time.
func (f *form) wall(t *time.Time) {
	if f.reads {
		if text := f.quoted(); f.err == nil && t.UnmarshalText([]byte(text)) != nil {
			f.err = errOtherForm
		}
		return
	}
	text, err := t.MarshalText()
	f.data, f.err = appendText(f.data, string(text)), err
}

func (f *form) address(a *netip.Addr) {
	if !f.reads {
		text, _ := a.MarshalText() // an address always has a text
		f.data = appendText(f.data, string(text))
		return
	}
	var err error
	if *a, err = netip.ParseAddr(f.quoted()); err != nil && f.err == nil {
		f.err = errOtherForm
	}
}

func (f *form) addresses(before string, v *[]netip.Addr) {
	if !f.at(before) || f.may("null", *v != nil) || !f.at("[") {
		return
	}
	if f.reads {
		*v = []netip.Addr{}
	}
	for i := 0; f.err == nil && (f.reads && !f.next("]") || !f.reads && i < len(*v)); i++ {
		if i > 0 {
			f.at(",")
		}
		if f.reads {
			*v = append(*v, netip.Addr{})
		}
		f.address(&(*v)[i])
	}
	f.at("]")
}

// appendText appends a text as JSON.
func appendText(b []byte, text string) []byte {
	if plain(text) < len(text) {
		quoted, _ := json.Marshal(text) // a text always encodes
		return append(b, quoted...)
	}
	return append(append(append(b, '"'), text...), '"')
}

func (f *form) moment(before string, m *reservation.Moment) {
	if f.at(before) && f.at(`{"wall":`) {
		wall := m.Wall.UTC()
		if f.wall(&wall); f.reads {
			m.Wall = wall
		}
		f.mayText(`,"boot":`, &m.BootID)
		integer(f, `,"up":`, &m.Up)
		f.at("}")
	}
}

// refused are the fields of the successor that was told to wait.
func (f *form) refused(since **reservation.Moment, uid *string) {
	if f.may(`,"refused":`, *since == nil) {
		f.moment("", made(since))
	}
	f.mayText(`,"refuseduid":`, uid)
}

// made returns what a pointer points to, which is made if there is none.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}
