package persistence

import (
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"strconv"
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
		return nil, fmt.Errorf("record without a checksum: %w", ErrDamaged)
	}
	body, want := data[:at], data[at+len(sumKey):len(data)-2]
	if got := appendSum(make([]byte, 0, 8), body); string(got) != string(want) {
		return nil, fmt.Errorf("checksum %s, want %s: %w", got, want, ErrDamaged)
	}
	return body, nil
}

// form writes records, and reads them: one function names the fields of a record for both, in their order. The first use of
// encoding/json for a type costs 0.2 ms, and each verb is a process.
type form struct {
	data  []byte // written so far, or left to read
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

// decode reads a record.
func decode[T any](data []byte, fields func(*form, *T)) (v T, err error) {
	body, err := unseal(data)
	if err != nil {
		return v, err
	}
	f := form{data: body, reads: true}
	if fields(&f, &v); f.err == nil && len(f.data) > 0 && f.data[0] != ',' {
		f.err = errOtherForm
	}
	if f.err != nil {
		return v, fmt.Errorf("%w: %w", f.err, ErrDamaged)
	}
	return v, nil
}

// at writes or reads what stands before a value. It reports whether the value is to be written or read.
func (f *form) at(before string) bool {
	switch {
	case f.err != nil:
	case !f.reads:
		f.data = append(f.data, before...)
	case f.next(before):
		f.data = f.data[len(before):]
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
	return f.at(before)
}

// next reports whether the text comes next.
func (f *form) next(text string) bool {
	return len(f.data) >= len(text) && string(f.data[:len(text)]) == text
}

// plain returns the length of the longest beginning of a text that JSON has without escapes.
func plain[T string | []byte](text T) int {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c == '"', c == '\\', c == '<', c == '>', c == '&', c >= utf8.RuneSelf:
			return i
		}
	}
	return len(text)
}

// quoted reads a text. The bytes are those of the record, unless the text has escapes.
func (f *form) quoted() []byte {
	quoted := f.data
	if !f.at(`"`) {
		return nil
	}
	n := plain(f.data)
	end := n
	for ; end < len(f.data) && f.data[end] != '"'; end++ {
		if f.data[end] == '\\' {
			end++
		}
	}
	if end >= len(f.data) {
		f.err = errOtherForm
		return nil
	}
	f.data = f.data[end+1:]
	if end == n {
		return quoted[1 : n+1]
	}
	var text string
	if json.Unmarshal(quoted[:end+2], &text) != nil {
		f.err = errOtherForm
	}
	return []byte(text)
}

func (f *form) text(before string, v *string) {
	switch {
	case !f.at(before):
	case f.reads:
		*v = string(f.quoted())
	default:
		f.data = appendText(f.data, *v)
	}
}

func (f *form) mayText(before string, v *string) {
	if f.may(before, *v == "") {
		f.text("", v)
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
	n := 0
	for n < len(f.data) && (f.data[n] == '-' || '0' <= f.data[n] && f.data[n] <= '9') {
		n++
	}
	text := string(f.data[:n])
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		*v = T(i)
	} else if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		*v = T(u)
	}
	var again [20]byte
	if f.data = f.data[n:]; string(appendInteger(again[:0], *v)) != text { // no number, one with a leading zero, or too large for its type
		f.err = errOtherForm
	}
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

// value writes or reads a value that is a text in JSON.
func (f *form) value(v interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
},
) {
	if f.reads {
		if text := f.quoted(); f.err == nil && v.UnmarshalText(text) != nil {
			f.err = errOtherForm
		}
		return
	}
	text, err := v.MarshalText()
	f.data, f.err = appendText(f.data, string(text)), err
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
		f.value(&(*v)[i])
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
		if f.value(&wall); f.reads {
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
