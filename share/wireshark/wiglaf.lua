-- Wireshark and tshark read Wiglaf's datagrams with this: docs/protocol.md, version 1.
--
--   tshark -X lua_script:wiglaf.lua -r job.pcapng -Y wiglaf
--
-- or copy it to a folder of plugins (Help, About, Folders). Datagrams are told
-- by their first bytes on any UDP port. The proof cannot be checked without
-- the job's key and is only shown; the checksum of the body is checked. Of an
-- encrypted datagram the header is shown, its count in place of the proof.

local wiglaf = Proto("wiglaf", "Wiglaf")

local HEADER_LEN = 48
local MAGIC, VERSION = 0x57, 1
local ENCRYPTED, AUTHENTICATION_LEN = 0x80, 16

local kinds = {
   [1] = "ordered", [2] = "bulk", [3] = "control",
   [0x81] = "ordered, encrypted", [0x82] = "bulk, encrypted", [0x83] = "control, encrypted",
}
local types = {
   [0x01] = "MESSAGE", [0x02] = "FIRST", [0x03] = "NEXT", [0x04] = "REQUEST",
   [0x05] = "PULL", [0x06] = "CLOSE", [0x07] = "PADDING", [0x10] = "ACK",
}
local classes = {
   [0] = "tagged", [1] = "untagged", [2] = "active", [3] = "WRITE", [4] = "READ",
   [5] = "ATOMIC", [6] = "FETCH", [7] = "ANSWER",
   [8] = "COLLECTIVE",
}
local lanes = { [0] = "ordered", [1] = "bulk" }
local sums = { [0] = "wrong", [1] = "right" }

local f = wiglaf.fields
f.magic = ProtoField.uint8("wiglaf.magic", "Magic", base.HEX)
f.version = ProtoField.uint8("wiglaf.version", "Version")
f.kind = ProtoField.uint8("wiglaf.kind", "Kind", base.DEC, kinds)
f.checksum = ProtoField.uint32("wiglaf.checksum", "Checksum (CRC-32C of the body)", base.HEX)
f.checksum_status = ProtoField.uint8("wiglaf.checksum.status", "Checksum is", base.DEC, sums)
f.proof = ProtoField.uint64("wiglaf.proof", "Proof", base.HEX)
f.count = ProtoField.uint64("wiglaf.count", "Datagrams encrypted before")
f.tag_bytes = ProtoField.bytes("wiglaf.authentication", "Authentication tag")
f.source = ProtoField.uint64("wiglaf.source", "Source epoch", base.HEX)
f.destination = ProtoField.uint64("wiglaf.destination", "Destination epoch", base.HEX)
f.sequence = ProtoField.uint64("wiglaf.sequence", "Number")
f.ack = ProtoField.uint32("wiglaf.ack", "First ordered packet not arrived")
f.credit = ProtoField.uint32("wiglaf.credit", "Eager limit")
f.ack_delay = ProtoField.uint16("wiglaf.ack_delay", "Ack delay in us")
f.bulk_port = ProtoField.uint16("wiglaf.bulk_port", "Bulk port")

f.record = ProtoField.none("wiglaf.record", "Record")
f.type = ProtoField.uint8("wiglaf.record.type", "Type", base.HEX, types)
f.flags = ProtoField.uint8("wiglaf.record.flags", "Flags", base.HEX)
f.length = ProtoField.uint16("wiglaf.record.length", "Length")
f.class = ProtoField.uint8("wiglaf.class", "Class", base.DEC, classes)
f.has_data = ProtoField.bool("wiglaf.has_data", "Data is meant", 8, nil, 0x01)
f.operation = ProtoField.uint32("wiglaf.operation", "Operation")
f.tag = ProtoField.uint64("wiglaf.tag", "Tag", base.HEX)
f.data = ProtoField.uint64("wiglaf.data", "Data", base.HEX)
f.address = ProtoField.uint64("wiglaf.address", "Address", base.HEX)
f.total = ProtoField.uint64("wiglaf.total", "Total length")
f.send_id = ProtoField.uint32("wiglaf.send_id", "Send id")
f.unasked_len = ProtoField.uint32("wiglaf.unasked.length", "Bytes that follow unasked")
f.unasked = ProtoField.bool("wiglaf.unasked", "Unasked", 32, nil, 0x01)
f.transfer_id = ProtoField.uint32("wiglaf.transfer_id", "Transfer id")
f.offset = ProtoField.uint64("wiglaf.offset", "Offset")
f.len = ProtoField.uint64("wiglaf.pull.length", "Bytes pulled")
f.window = ProtoField.uint32("wiglaf.window", "Window")
f.last = ProtoField.bool("wiglaf.last", "Last pull", 8, nil, 0x01)
f.lane = ProtoField.uint8("wiglaf.ack.lane", "Lane", base.DEC, lanes)
f.delay = ProtoField.uint16("wiglaf.ack.delay", "Delay in us")
f.exact = ProtoField.bool("wiglaf.ack.exact", "Delay is exact", 8, nil, 0x01)
f.sent_at = ProtoField.uint32("wiglaf.ack.sent_at", "Sent at, us of the sender's clock")
f.cumulative = ProtoField.uint32("wiglaf.ack.cumulative", "First not arrived")
f.bitmap = ProtoField.bytes("wiglaf.ack.bitmap", "Arrived behind it")
f.payload = ProtoField.bytes("wiglaf.payload", "Payload")
f.payload_len = ProtoField.uint32("wiglaf.payload.length", "Payload length")

local e = wiglaf.experts
e.malformed = ProtoExpert.new(
   "wiglaf.malformed", "A record breaks the rules of its type",
   expert.group.MALFORMED, expert.severity.ERROR)
e.checksum = ProtoExpert.new(
   "wiglaf.checksum.bad", "The checksum does not match the body",
   expert.group.CHECKSUM, expert.severity.ERROR)

-- CRC-32C (Castagnoli), reflected; a table for each byte.
local bits = bit32 or bit
local crc_table = {}
for byte = 0, 255 do
   local value = byte
   for _ = 1, 8 do
      local shifted = bits.rshift(value, 1)
      value = bits.band(value, 1) == 1 and bits.bxor(shifted, 0x82f63b78) or shifted
   end
   crc_table[byte] = value
end

local function crc32c(raw)
   local value = 0xffffffff
   for i = 1, #raw do
      local index = bits.band(bits.bxor(value, raw:byte(i)), 0xff)
      value = bits.bxor(bits.rshift(value, 8), crc_table[index])
   end
   return bits.bxor(value, 0xffffffff) % 0x100000000
end

local function show_payload(range, tree)
   tree:add(f.payload_len, range:len()):set_generated()
   if range:len() > 0 then
      tree:add(f.payload, range)
   end
end

-- The envelope: its length, or nil where the record is too short for it.
local function envelope(range, tree)
   if range:len() < 24 then return nil end
   local class = range(0, 1):uint()
   local len = (class >= 3 and class <= 6) and 32 or 24
   if range:len() < len or not classes[class] then return nil end
   tree:add(f.class, range(0, 1))
   tree:add(f.has_data, range(1, 1))
   tree:add_le(f.operation, range(4, 4))
   tree:add_le(f.tag, range(8, 8))
   tree:add_le(f.data, range(16, 8))
   if len == 32 then
      tree:add_le(f.address, range(24, 8))
   end
   return len
end

-- What is behind the first n bytes; nothing, where those are all.
local function behind(range, n)
   return n < range:len() and range(n) or nil
end

local function payload_behind(range, n, tree)
   local rest = behind(range, n)
   if rest then
      show_payload(rest, tree)
   else
      tree:add(f.payload_len, 0):set_generated()
   end
end

-- Each shows the content of a record and says whether it is well formed.
local content = {}

content[0x01] = function(range, tree)
   local len = envelope(range, tree)
   if not len then return false end
   payload_behind(range, len, tree)
   return true
end

content[0x02] = function(range, tree)
   local len = envelope(range, tree)
   if not len or range:len() < len + 8 then return false end
   tree:add_le(f.total, range(len, 8))
   payload_behind(range, len + 8, tree)
   return true
end

content[0x03] = function(range, tree)
   show_payload(range, tree)
   return true
end

content[0x04] = function(range, tree)
   local len = envelope(range, tree)
   if not len or range:len() ~= len + 16 then return false end
   tree:add_le(f.total, range(len, 8))
   tree:add_le(f.send_id, range(len + 8, 4))
   tree:add_le(f.unasked_len, range(len + 12, 4))
   return true
end

content[0x05] = function(range, tree, flags)
   if range:len() ~= 28 then return false end
   tree:add(f.last, flags)
   tree:add_le(f.send_id, range(0, 4))
   tree:add_le(f.transfer_id, range(4, 4))
   tree:add_le(f.offset, range(8, 8))
   tree:add_le(f.len, range(16, 8))
   tree:add_le(f.window, range(24, 4))
   return true
end

-- Delays that are none.
local meaning = { [65532] = " (unknown: frames were dropped)",
   [65533] = " (or longer)", [65534] = " (it came twice)", [65535] = " (unknown)" }

local function delay(field, range, tree)
   tree:add_le(field, range):append_text(meaning[range:le_uint()] or "")
end

-- Means nothing, whatever it is.
content[0x07] = function()
   return true
end

content[0x10] = function(range, tree)
   local len = range:len()
   if len < 12 or len % 8 ~= 4 or len > 12 + 32 * 8 or not lanes[range(0, 1):uint()] then
      return false
   end
   tree:add(f.lane, range(0, 1))
   tree:add(f.exact, range(1, 1))
   delay(f.delay, range(2, 2), tree)
   tree:add_le(f.sent_at, range(4, 4))
   tree:add_le(f.cumulative, range(8, 4))
   if len > 12 then
      tree:add(f.bitmap, range(12))
   end
   return true
end

-- Records until the end, or until one is malformed: what follows it is ignored.
local function records(body, tree, names)
   local at = 0
   while at < body:len() do
      local left = body:len() - at
      local len = left >= 4 and body(at + 2, 2):le_uint() or 0
      if left < 4 + len then
         tree:add_proto_expert_info(e.malformed, "A record is cut short")
         names[#names + 1] = "malformed"
         return
      end
      local kind = body(at, 1):uint()
      local name = types[kind] or string.format("type %d", kind)
      local item = tree:add(f.record, body(at, 4 + len))
      item:set_text("Record: " .. name)
      item:add(f.type, body(at, 1))
      item:add(f.flags, body(at + 1, 1))
      item:add_le(f.length, body(at + 2, 2))
      local well_formed
      if len == 0 then
         well_formed = kind == 0x06 or kind == 0x03 or kind == 0x07
      else
         local show = content[kind]
         well_formed = show ~= nil and show(body(at + 4, len), item, body(at + 1, 1))
      end
      names[#names + 1] = name
      if not well_formed then
         item:add_proto_expert_info(e.malformed)
         return
      end
      at = at + 4 + len
   end
end

local function segment(body, tree)
   if body:len() < 16 then
      tree:add_proto_expert_info(e.malformed, "A segment is cut short")
      return
   end
   local is_unasked = bits.band(body(4, 4):le_uint(), 1) ~= 0
   tree:add_le(is_unasked and f.send_id or f.transfer_id, body(0, 4))
   tree:add_le(f.unasked, body(4, 4))
   tree:add_le(f.offset, body(8, 8))
   payload_behind(body, 16, tree)
end

-- 32 bits behind, 8 more in front.
local function number(buffer)
   return UInt64.new(buffer(32, 4):le_uint(), buffer(3, 1):uint())
end

local function header(buffer, is_encrypted, tree)
   tree:add(f.magic, buffer(0, 1))
   tree:add(f.version, buffer(1, 1))
   tree:add(f.kind, buffer(2, 1))
   tree:add_le(f.checksum, buffer(4, 4))
   tree:add_le(is_encrypted and f.count or f.proof, buffer(8, 8))
   tree:add_le(f.source, buffer(16, 8))
   tree:add_le(f.destination, buffer(24, 8))
   tree:add(f.sequence, buffer(32, 4), number(buffer))
   tree:add_le(f.ack, buffer(36, 4))
   tree:add_le(f.credit, buffer(40, 4))
   delay(f.ack_delay, buffer(44, 2), tree)
   tree:add_le(f.bulk_port, buffer(46, 2))
end

local function checksum(buffer, body, tree)
   local status = crc32c(body and body:raw() or "") == buffer(4, 4):le_uint() and 1 or 0
   tree:add(f.checksum_status, buffer(4, 4), status):set_generated()
   if status == 0 then
      tree:add_proto_expert_info(e.checksum)
   end
end

-- A body that was cut ends before its tag.
local function hidden(body, is_cut, tree)
   local len = is_cut and body:len() or body:len() - AUTHENTICATION_LEN
   if len > 0 then
      show_payload(body(0, len), tree)
   end
   if not is_cut and len >= 0 then
      tree:add(f.tag_bytes, body(len))
   end
end

function wiglaf.dissector(buffer, pinfo, root)
   if buffer:len() < HEADER_LEN then return 0 end
   pinfo.cols.protocol = "Wiglaf"
   local tree = root:add(wiglaf, buffer())
   local kind, names = buffer(2, 1):uint(), {}
   local is_encrypted = kind >= ENCRYPTED
   header(buffer, is_encrypted, tree)
   local body = buffer:len() > HEADER_LEN and buffer(HEADER_LEN) or nil
   -- A frame that was cut when it was recorded cannot be summed.
   local is_cut = buffer:len() < buffer:reported_len()
   if not is_cut and not is_encrypted then
      checksum(buffer, body, tree)
   end
   if body and is_encrypted then
      hidden(body, is_cut, tree)
   elseif body and kind == 2 then
      segment(body, tree)
   elseif body then
      records(body, tree, names)
   end
   local info = (kinds[kind] or "kind?") .. " " .. tostring(number(buffer)) .. " "
      .. table.concat(names, " ")
   pinfo.cols.info = info
   return buffer:len()
end

local function is_ours(buffer, pinfo, root)
   if buffer:len() < HEADER_LEN or buffer(0, 1):uint() ~= MAGIC
      or buffer(1, 1):uint() ~= VERSION or not kinds[buffer(2, 1):uint()] then
      return false
   end
   wiglaf.dissector(buffer, pinfo, root)
   return true
end

wiglaf:register_heuristic("udp", is_ours)

-- Ranks have ephemeral ports, and some 30 of these are other protocols' in Wireshark's tables, which go
-- before heuristics: such a datagram, and then all between the two ports, would be shown as theirs.
if set_preference then
   set_preference("udp.try_heuristic_first", true)
end
