// Built by scripts/web; licences of what is built in: /a/licenses.txt
var now=()=>performance.timeOrigin+performance.now();var DELAY={first:150,step:50,most:500},JUMP=60,Clock=class{readings=[];begun=null;delay=DELAY.first;forSound=0;pong(sent,position,at=now()){
let took=at-sent,reading={took,began:at-took/2-position,at},best=this.best(at);best&&Math.abs(best.began-reading.began)>
JUMP+(best.took+took)/2&&(this.readings=[]),this.readings.push(reading),this.begun=this.best(at)?.began??this.begun}hint(position,stood,at=now()){
let began=at-position,later=this.begun===null?1/0:began-this.begun;Math.abs(later)<=1e3&&!(stood&&later>JUMP)||(this.begun=
began,this.readings=[])}best(at){return this.readings=this.readings.filter(reading=>at-reading.at<5e3),this.readings.reduce(
(best,next)=>best&&best.took<=next.took?best:next,void 0)}time(position){return this.begun===null?null:this.begun+position+
this.delay}position(at=now()){return this.begun===null?null:at-this.begun-this.delay}slower(bySound=!1){let step=Math.min(
DELAY.step,DELAY.most-this.delay);this.delay+=step,bySound&&(this.forSound+=step)}silent(){this.delay-=this.forSound,this.
forSound=0}};var Lane=class{constructor(tile2,to){this.tile=tile2;this.to=to}tile;to;decoder=null;codec="";waiting=[];add(course){this.
waiting.push({course,next:0})}feed(from,until){for(;this.waiting.length>0&&this.waiting[0].course.gop<from;)this.waiting.
shift();for(;this.waiting.length>0;){let[waiting2]=this.waiting,{course,next}=waiting2;if(course.first+next>until||(this.
decoder?.decodeQueueSize??0)>=6)return;let decoder=next===0?this.ready(course.codec):this.decoder;if(!decoder){this.waiting.
shift();continue}let{data,picture}=course.samples[next],type=next===0?"key":"delta";try{decoder.decode(new EncodedVideoChunk(
{type,timestamp:course.first+picture,data}))}catch(error){this.waiting.shift(),this.close(),this.to.failed(this.tile,String(
error));continue}waiting2.next+=1,waiting2.next===course.samples.length&&(this.waiting.shift(),decoder.flush().catch(()=>{}))}}ready(codec){
if(this.decoder&&this.codec===codec)return this.decoder;this.close();let decoder=new VideoDecoder({output:frame=>this.to.
frame(this.tile,frame.timestamp,frame),error:error=>{this.decoder===decoder&&(this.decoder=null),this.to.failed(this.tile,
error.message)}});decoder.ondequeue=()=>this.to.room();try{decoder.configure({codec,hardwareAcceleration:"prefer-softwar\
e",optimizeForLatency:!0})}catch(error){return this.to.failed(this.tile,String(error)),null}return this.codec=codec,this.
decoder=decoder,decoder}close(){this.decoder&&this.decoder.state!=="closed"&&this.decoder.close(),this.decoder=null}reset(){
this.close(),this.waiting=[]}},Bank=class{lanes;constructor(tiles,to){this.lanes=Array.from({length:tiles},(_,tile2)=>new Lane(
tile2,to))}add(tile2,course){this.lanes[tile2].add(course)}feed(order,from,until){for(let tile2 of order)this.lanes[tile2].
feed(from,until)}reset(){for(let lane of this.lanes)lane.reset()}};function times(a,b){return[a[0]*b[0]-a[1]*b[1]-a[2]*b[2]-a[3]*b[3],a[0]*b[1]+a[1]*b[0]+a[2]*b[3]-a[3]*b[2],a[0]*b[2]+a[2]*
b[0]+a[3]*b[1]-a[1]*b[3],a[0]*b[3]+a[3]*b[0]+a[1]*b[2]-a[2]*b[1]]}var radians=degrees=>degrees*Math.PI/180;function matrix({
yaw,pitch,roll}){let half=degrees=>[Math.sin(radians(degrees)/2),Math.cos(radians(degrees)/2)],[[sy,cy],[sp,cp],[sr,cr]]=[
half(yaw),half(pitch),half(roll)],[w,x,y,z]=times(times([cy,0,0,-sy],[cp,0,-sp,0]),[cr,sr,0,0]);return[1-2*(y*y+z*z),2*(x*
y-w*z),2*(x*z+w*y),2*(x*y+w*z),1-2*(x*x+z*z),2*(y*z-w*x),2*(x*z-w*y),2*(y*z+w*x),1-2*(x*x+y*y)]}function byDistance(columns,rows,head2){let m=matrix(head2),[x,y,z]=[m[0],m[3],m[6]],near=Array.from({length:columns*rows},
(_,tile2)=>{let yaw=(tile2%columns+.5)/columns*2*Math.PI-Math.PI,pitch=Math.PI/2-(Math.floor(tile2/columns)+.5)/rows*Math.
PI,flat=Math.cos(pitch);return x*flat*Math.cos(yaw)-y*flat*Math.sin(yaw)+z*Math.sin(pitch)});return near.map((_,tile2)=>tile2).
sort((a,b)=>near[b]-near[a])}var view=bytes=>new DataView(bytes.buffer,bytes.byteOffset,bytes.byteLength),START=[0,0,0,1];function box(bytes,name,skip=0){
let all=view(bytes);for(let at=skip;at+8<=bytes.length;){let size=all.getUint32(at),end=size===0?bytes.length:at+size;if(size===
1||end<at+8||end>bytes.length)break;if(String.fromCharCode(...bytes.subarray(at+4,at+8))===name)return bytes.subarray(at+
8,end);at=end}throw new Error(`there is no box ${name}; is the package damaged?`)}var path=(bytes,...names)=>names.reduce(
(inner,name)=>box(inner,name),bytes);function setup(init){let descriptions=path(init,"moov","trak","mdia","minf","stbl",
"stsd"),config=box(box(descriptions,"avc1",8),"avcC",78);if(config.length<7)throw new Error("the box avcC is cut short; \
is the package damaged?");if((config[4]&3)!==3)throw new Error("units of H.264 have lengths of four bytes, and these hav\
e not");let codec=`avc1.${[...config.subarray(1,4)].map(byte=>byte.toString(16).padStart(2,"0")).join("")}`,sets=[],at=5;
for(let mask of[31,255])for(let count=config[at++]&mask;count>0;count--){let length=config[at]<<8|config[at+1];if(!(at+2+
length<=config.length))throw new Error("a parameter set is cut short");sets.push(...START,...config.subarray(at+2,at+2+length)),
at+=2+length}return{codec,parameters:Uint8Array.from(sets)}}function samples(segment,{parameters}){let media=box(segment,
"mdat"),found=[],at=0;for(let{size,time}of runs(path(segment,"moof","traf"))){if(at+size>media.length)throw new Error("a\
 picture is cut short; is the package damaged?");let data=media.subarray(at,at+size);startCodes(data),found.push({data,time}),
at+=size}if(found.length===0)throw new Error("a segment has no picture");let first=new Uint8Array(parameters.length+found[0].
data.length);first.set(parameters),first.set(found[0].data,parameters.length),found[0].data=first;let times2=found.map(({
time})=>time).sort((a,b)=>a-b);return found.map(({data,time})=>({data,picture:times2.indexOf(time)}))}var MAX_PICTURES=7200;
function runs(fragment){let header=view(box(fragment,"tfhd")),flags=header.getUint32(0)&16777215,at=8+(flags&1?8:0)+(flags&
2?4:0),field=flag=>flags&flag?(at+=4,header.getUint32(at-4)):0,[usual,usualSize]=[field(8),field(16)],run=view(box(fragment,
"trun")),has=run.getUint32(0)&16777215,count=run.getUint32(4);if(count>MAX_PICTURES)throw new Error(`a segment has ${count}\
 pictures, and ${MAX_PICTURES} are the most`);at=8+(has&1?4:0)+(has&4?4:0);let next=(flag,instead)=>has&flag?(at+=4,run.
getUint32(at-4)):instead,decoded=0;return Array.from({length:count},()=>{let lasts=next(256,usual),size=next(512,usualSize);
next(1024,0);let time=decoded+(next(2048,0)|0);return decoded+=lasts,{size,time}})}function startCodes(data){let all=view(
data);for(let at=0;at<data.length;){let length=at+4<=data.length?all.getUint32(at):0;if(length===0||at+4+length>data.length)
throw new Error("a unit of H.264 is cut short; is the package damaged?");all.setUint32(at,1),at+=4+length}}var STREAM=3,DECODER=4,SPECIFIC=5;function descriptor(bytes,tag,at){if(bytes[at]!==tag)throw new Error(`a descriptor of \
AAC has tag ${bytes[at]} in the place of ${tag}`);let length=0;for(let more=!0;more;){let byte=bytes[at+=1]??0;length=length<<
7|byte&127,more=(byte&128)!==0&&length<1<<21}if(at+1+length>bytes.length)throw new Error("a descriptor of AAC is cut sho\
rt; is the package damaged?");return bytes.subarray(at+1,at+1+length)}function soundSetup(init){let media=path(init,"moo\
v","trak","mdia"),header=view(box(media,"mdhd")),scale=header.getUint32(header.getUint8(0)===1?20:12);if(scale===0)throw new Error(
"the sound has no unit of time");let descriptions=path(media,"minf","stbl","stsd"),stream=descriptor(box(box(descriptions,
"mp4a",8),"esds",28),STREAM,4),description=descriptor(descriptor(stream,DECODER,3),SPECIFIC,13);if(description.length<2)
throw new Error("AAC says nothing of how it is coded");return{codec:`mp4a.40.${description[0]>>3}`,description,scale}}function frames(segment,{
scale},gop){let media=box(segment,"mdat"),packaged=view(path(segment,"moof","mfhd")).getUint32(4)-1,time=view(path(segment,
"moof","traf","tfdt")),begins=1e3*(time.getUint8(0)===1?Number(time.getBigUint64(4)):time.getUint32(4))/scale-packaged*gop,
at=0;return runs(path(segment,"moof","traf")).map(({size,time:time2})=>{if(at+size>media.length)throw new Error("a frame\
 of sound is cut short; is the package damaged?");return at+=size,{data:media.subarray(at-size,at),at:begins+1e3*time2/scale}})}var AHEAD=600,AT_ONCE=16,FAILURES=8,Sound=class{constructor(clock2,post2){this.clock=clock2;this.post=post2}clock;post;manifest=null;on=!1;decoder=null;ending=new Set;failures=0;trouble="";newest;setup=null;waiting=[];ends=NaN;start(manifest2){
this.stop(),this.setup=null,[this.failures,this.trouble]=[0,""],this.manifest=manifest2}turn(on){this.on=on,[this.failures,
this.trouble]=[0,""],this.waiting=[],this.close(),on&&this.begin(this.newest)}begin(tile2){if(this.newest=tile2,!(!tile2||
!this.on||!this.manifest?.sound))try{let{gop}=this.manifest;this.setup??=soundSetup(tile2.init);let all=frames(tile2.segment,
this.setup,gop);if(!all.every(({at})=>at>=-this.lasts&&at<=gop))throw new Error("it is of another time than its GoP");for(let{
data,at}of all)this.waiting.push({data,at:tile2.gop*gop+at})}catch(error){this.fail(String(error))}}step(){let[at,{lasts}]=[
this.clock.position(),this];if(at!==null)for(;this.waiting.length>0&&this.waiting[0].at<=at+AHEAD;){let[frame]=this.waiting;
if(!(frame.at+lasts<at)&&this.failures<FAILURES&&!this.decode(frame,lasts))return;this.waiting.shift()}}stop(){this.waiting=
[],this.newest=void 0,this.close()}get lasts(){return this.manifest?.sound?1024e3/this.manifest.sound.rate:0}close(){for(let decoder of[
...this.ending,this.decoder])decoder&&decoder.state!=="closed"&&decoder.close();this.ending.clear(),this.decoder=null,this.
ends=NaN}finish(){let{decoder}=this;if(this.decoder=null,!decoder||decoder.state==="closed")return;this.ending.add(decoder);
let close=()=>{this.ending.delete(decoder)&&decoder.state!=="closed"&&decoder.close()};decoder.flush().then(close,close)}fail(why){
this.failures+=1;let text2=`the sound cannot be decoded: ${why}`;text2!==this.trouble&&this.post({is:"trouble",text:text2}),
this.trouble=text2}decode({data,at},lasts){if((this.decoder?.decodeQueueSize??0)>=AT_ONCE)return!1;let since=at-this.ends;
if(since<-lasts/2&&since>-lasts-1)return!0;let goesOn=Math.abs(since)<=lasts/2;goesOn||this.finish(),this.ends=(goesOn?this.
ends:at)+lasts;try{this.decoder??=this.open(),this.decoder.decode(new EncodedAudioChunk({type:"key",timestamp:Math.round(
1e3*at),data}))}catch(error){this.close(),this.fail(String(error))}return!0}open(){let decoder=new AudioDecoder({output:data=>this.
heard(data),error:error=>{this.decoder===decoder&&([this.decoder,this.ends]=[null,NaN]),this.fail(error.message)}}),{codec,
description}=this.setup,{rate,channels}=this.manifest?.sound??{rate:0,channels:0};return decoder.configure({codec,description,
sampleRate:rate,numberOfChannels:channels}),decoder}heard(data){this.failures=0;let channels=Array.from({length:data.numberOfChannels},
(_,planeIndex)=>{let plane=new Float32Array(data.numberOfFrames);return data.copyTo(plane,{planeIndex,format:"f32-planar"}),
plane}),sound={at:data.timestamp/1e3,rate:data.sampleRate,channels};data.close(),this.post({is:"sound",sound},channels.map(
({buffer})=>buffer))}};function planes(width,height){let[luma,chroma]=[width*height,width*height/4],cb=luma+width,cr=cb+chroma+width/2;return{width,
height,cb,cr,bytes:cr+chroma+width/2}}var CONCEALMENTS=["grey","last-received","base-layer"];var Reader=class{constructor(bytes){this.bytes=bytes;this.view=new DataView(bytes.buffer,bytes.byteOffset,bytes.byteLength)}bytes;at=1;view;step(bytes){
let at=this.at;if(at+bytes>this.bytes.length)throw new Error(`a message of type ${this.bytes[0]} ends in the middle of a\
 field`);return this.at+=bytes,at}u8(){return this.view.getUint8(this.step(1))}u16(){return this.view.getUint16(this.step(
2))}u32(){return this.view.getUint32(this.step(4))}u64(){return this.view.getBigUint64(this.step(8))}f32(){return this.view.
getFloat32(this.step(4))}take(bytes){let at=this.step(bytes);return this.bytes.subarray(at,at+bytes)}rest(){return this.
take(this.bytes.length-this.at)}end(){let extra=this.bytes.length-this.at;if(extra>0)throw new Error(`a message of type ${this.
bytes[0]} has ${extra} bytes too many`)}},text=bytes=>new TextDecoder().decode(bytes),ms=nanos=>Number(nanos)/1e6;function decode(bytes){
let reader=new Reader(bytes),message=read(bytes[0],reader);return message&&reader.end(),message}function read(kind,reader){
switch(kind){case 2:return{is:"manifest",manifest:manifest(reader)};case 3:return{is:"gop",notice:notice(reader)};case 4:
return{is:"tile",tile:tile(reader)};case 36:return{is:"held",tile:tile(reader)};case 6:return{is:"end",gops:reader.u32()};case 7:
return{is:"refusal",reason:text(reader.take(reader.u8()))};case 32:return{is:"sample",text:text(reader.rest())};case 33:
return{is:"report",text:text(reader.rest())};case 34:return{is:"pong",pong:pong(reader)};case 35:return{is:"begin",gop:reader.
u32(),stood:reader.u8()!==0};default:return null}}function manifest(reader){let version=reader.u16();if(version!==5)throw new Error(
`the program has version ${version} of live streams and this page 5: load it anew`);let[width,height]=[reader.u32(),reader.
u32()],[columns,rows]=[reader.u8(),reader.u8()],gop=ms(reader.u64()),[pictures,gops]=[reader.u32(),reader.u32()],concealment=CONCEALMENTS[reader.
u8()];if(!concealment||!columns||!rows||!pictures||pictures>28800)throw new Error("the manifest has a value out of range");
let scheme=text(reader.take(reader.u8())),qps=[...reader.take(reader.u8())],[channels,rate]=[reader.u8(),reader.u32()],sound=channels>
0?{channels,rate}:null;return{width,height,columns,rows,gop,pictures,gops,concealment,scheme,qps,sound}}function notice(reader){
let gop=reader.u32();reader.take(12);let tiles=[];for(let count=reader.u16();count>0;count--){let[flags,ages]=[reader.u8(),
reader.u8()],rung=flag=>{if(!(flags&flag))return null;let found={qp:reader.u8(),bytes:reader.u32()};return reader.f32(),
found},[planned,base]=[rung(1),rung(2)];reader.take(4+4*ages),tiles.push({planned,base,ages})}return{gop,tiles}}function tile(reader){
let[gop,number,qp]=[reader.u32(),reader.u16(),reader.u8()];reader.take(2*DIGEST);let init=reader.take(reader.u32());return{
gop,tile:number,qp,init,segment:reader.rest()}}var DIGEST=16;function pong(reader){let echo=Number(reader.u64()),position=reader.
u64(),[flags,viewers,dropped]=[reader.u8(),reader.u8(),reader.u32()];return{echo,position:position!==0xffffffffffffffffn?
ms(position):null,steers:(flags&1)!==0,moves:(flags&2)!==0,viewers,dropped}}var Writer=class{view;at=0;constructor(bytes){
this.view=new DataView(new ArrayBuffer(bytes))}u8(value){return this.view.setUint8(this.at,value),this.at+=1,this}u16(value){
return this.view.setUint16(this.at,Math.min(65535,value)),this.at+=2,this}u32(value){return this.view.setUint32(this.at,
value),this.at+=4,this}u64(value){return this.view.setBigUint64(this.at,value),this.at+=8,this}f32(value){return this.view.
setFloat32(this.at,value),this.at+=4,this}done(){return this.view.buffer}};function poses(all){let writer=new Writer(2+20*
all.length).u8(48).u8(all.length);for(let{at,yaw,pitch,roll}of all)writer.u64(BigInt(Math.round(Math.max(0,at)*1e6))).f32(
yaw).f32(pitch).f32(roll);return writer.done()}function shown(of){let writer=new Writer(19+4*of.tiles.length).u8(49).u32(
of.gop).u16(of.shown).u16(of.dropped);writer.u16(of.lateNetwork).u16(of.lateDecoding).f32(of.lead).u16(of.tiles.length);
for(let{had,qp,missed}of of.tiles)writer.u8(had).u8(qp).u16(missed);return writer.done()}function ping(echo){return new Writer(
9).u8(50).u64(BigInt(echo)).done()}function steer(){return new Writer(1).u8(51).done()}var MAX_GOPS=64,MAX_BYTES=128<<20,AHEAD2=5,MAX_AHEAD=24,MAX_AHEAD_BYTES=144<<20,POOL=8,Engine=class{constructor(clock2,post2,report){
this.clock=clock2;this.post=post2;this.report=report;this.sound=new Sound(clock2,post2)}clock;post;report;manifest=null;planes=planes(
2,2);bank=new Bank(0,this);sound;coming=new Map;going=new Map;slots=new Map;pool=[];order=[];colour="";trouble="";held=new Map;last=new Map;holding=new Set;current=-1;tardy={
gop:-1,frames:0};head={yaw:0,pitch:0,roll:0};sums={gops:0,shown:0,dropped:0,lateNetwork:0,lateDecoding:0,lead:0};get period(){
return this.manifest?this.manifest.gop/this.manifest.pictures:1/0}take(message){switch(message.is){case"manifest":return this.
start(message.manifest);case"gop":message.notice.gop>this.current&&(this.open(message.notice.gop).notice=message.notice);
return;case"tile":return this.keep(message.tile);case"held":this.held.set(message.tile.tile,message.tile);return;case"be\
gin":return this.begin(message.gop,message.stood);default:return}}start(manifest2){this.stop(),this.coming.clear(),this.
last.clear(),this.manifest=manifest2,this.current=-1,this.planes=planes(manifest2.width,manifest2.height),this.pool.length=
0,this.bank=new Bank(manifest2.columns*manifest2.rows,this),this.sound.start(manifest2),this.turn(this.head),this.post({
is:"manifest",manifest:manifest2,concealment:manifest2.concealment})}turn(head2){this.head=head2,this.manifest&&(this.order=
byDistance(this.manifest.columns,this.manifest.rows,head2))}open(gop){let found=this.coming.get(gop);return found||(found=
{notice:null,tiles:new Map,bytes:0},this.coming.set(gop,found),this.coming.size>MAX_GOPS&&this.coming.delete(Math.max(...this.
coming.keys()))),found}ahead(){let all=[...this.coming.values()];return{gops:all.length,bytes:all.reduce((sum,{bytes})=>sum+
bytes,0)}}keep(tile2){if(!this.manifest||tile2.gop<=this.current)return;let isSound=tile2.tile===65535;if(!isSound&&tile2.
tile>=this.manifest.columns*this.manifest.rows)throw new Error(`there is no tile ${tile2.tile}`);let bytes=tile2.init.length+
tile2.segment.length,coming=this.open(tile2.gop);if(isSound&&coming.sound)return;let known=coming.tiles.get(tile2.tile)??
new Map;if(!known.has(tile2.qp)){if(this.ahead().bytes+bytes>MAX_BYTES)throw new Error("there is no room for all that co\
mes ahead");if(coming.bytes+=bytes,isSound){coming.sound=tile2;return}known.set(tile2.qp,tile2),coming.tiles.set(tile2.tile,
known)}}begin(gop,stood){let{manifest:manifest2}=this;if(!manifest2||gop<=this.current)return;this.current=gop,this.clock.
hint(gop*manifest2.gop,stood);let coming=this.open(gop);for(let old of[...this.coming.keys()].filter(other=>other<=gop))
this.coming.delete(old);this.sound.begin(coming.sound);let count=manifest2.columns*manifest2.rows,none=()=>new Array(count).
fill(0),going={gop,qps:[],had:[],lateNetwork:0,broken:0,missed:none(),there:none(),shown:0,dropped:0,lead:1/0,grey:"no"},
wants=new Array(manifest2.pictures).fill(0),states=[];for(let tile2=0;tile2<count;tile2++){let chosen=this.choose(tile2,
coming,wants,gop),qp=chosen?.qp??null,planned=coming.notice?.tiles[tile2]?.planned,late=planned?planned.qp!==qp:coming.notice===
null&&qp===null;chosen&&qp===null?going.broken+=1:late&&(going.lateNetwork+=1),going.qps.push(qp),going.had.push(chosen?.
had??null),states.push({qp,late})}this.recall(going,coming,wants);let places=going.qps.map((qp,tile2)=>qp===null&&!this.
stays(tile2,gop,coming)?2:0);for(let[tile2,qp]of going.qps.entries())qp!==null&&this.last.set(tile2,gop);this.going.set(
gop,going);let nothing=coming.notice!==null&&coming.notice.tiles.every(({planned,base})=>!planned&&!base);this.post({is:"\
gop",gop,tiles:states,nothing});for(let[picture,wanted]of wants.entries()){let number=gop*manifest2.pictures+picture,tiles=Uint8Array.
from(places),slot={number,gop,buffer:null,tiles,wants:wanted,has:0,copying:0,posted:null};this.slots.set(number,slot)}this.
step()}stays(tile2,gop,{notice:notice2}){if(this.manifest?.concealment!=="last-received")return!1;let last=this.last.get(
tile2);return last===void 0||notice2===null||gop-last<=notice2.tiles[tile2].ages}recall(going,coming,wants){for(let[tile2,
held]of this.held)if(this.last.set(tile2,held.gop),!(going.qps[tile2]!==null||!this.manifest||!this.stays(tile2,going.gop,
coming)))try{let how=setup(held.init),all=samples(held.segment,how),first=going.gop*this.manifest.pictures-all.length+1;
this.bank.add(tile2,{gop:going.gop,codec:how.codec,samples:all,first}),this.holding.add(tile2),wants[0]+=1}catch(error){
this.failed(tile2,String(error))}this.held.clear()}choose(tile2,coming,wants,gop){let{manifest:manifest2}=this,came=coming.
tiles.get(tile2);if(!came||!manifest2)return null;let told=coming.notice?.tiles[tile2],found=(told?[told.planned?.qp,told.
base?.qp]:[...came.keys()].sort((a,b)=>a-b)).map(qp=>qp===void 0?void 0:came.get(qp)).find(one=>one);if(!found)return null;
try{let how=setup(found.init),all=samples(found.segment,how);if(all.length>manifest2.pictures)throw new Error("a segment\
 has more pictures than a GoP");let first=gop*manifest2.pictures,course={gop,codec:how.codec,samples:all,first};for(let{
picture}of all)wants[picture]+=1;return this.bank.add(tile2,course),{had:found.qp,qp:found.qp}}catch(error){return this.
failed(tile2,String(error)),{had:found.qp,qp:null}}}failed(tile2,why){let text2=`tile ${tile2} cannot be decoded: ${why}`;
text2!==this.trouble&&this.post({is:"trouble",text:text2}),this.trouble=text2}room(){this.feed()}feed(){let{manifest:manifest2}=this;
if(!manifest2)return;let at=this.clock.position(),shown2=at===null?0:Math.floor(at/this.period),room=Math.min(MAX_AHEAD,
Math.floor(MAX_AHEAD_BYTES/this.planes.bytes)),ahead=Math.max(AHEAD2,Math.min(room,Math.ceil(this.clock.delay/this.period)+
3));this.bank.feed(this.order,Math.floor(shown2/manifest2.pictures),shown2+ahead)}step(){this.feed(),this.sound.step();let at=now();
for(let slot of this.slots.values()){let due=this.clock.time(slot.number*this.period);if(due===null||at<due)break;if(slot.
posted!==null||slot.copying>0)continue;let late=at>=due+this.period/2;slot.wants===0?this.conceal(slot,late):late&&this.
finish(slot)}}frame(tile2,number,frame){let slot=this.slots.get(number);if(slot&&slot.posted!==null&&this.holding.has(tile2)&&
(slot=[...this.slots.values()].find(other=>other.posted===null&&other.tiles[tile2]===0),slot&&(slot.wants+=1)),!slot||slot.
posted!==null||!this.manifest){frame.close();return}this.holding.delete(tile2),slot.copying+=1,this.look(frame),this.copy(
tile2,slot,frame).then(()=>{slot.tiles[tile2]=1,slot.has+=1},error=>{slot.wants-=1,this.failed(tile2,String(error))}).finally(
()=>{frame.close(),slot.copying-=1,slot.has===slot.wants&&slot.posted===null&&this.slots.get(slot.number)===slot&&this.finish(
slot),this.feed()})}async copy(tile2,slot,frame){let{columns,rows}=this.manifest,{width,height,cb,cr,bytes}=this.planes,
[wide,high]=[width/columns,height/rows];if(frame.displayWidth!==wide||frame.displayHeight!==high)throw new Error(`it has\
 ${frame.displayWidth}x${frame.displayHeight} pixels, and ${wide}x${high} are its place`);slot.buffer??=this.pool.pop()??
new ArrayBuffer(bytes);let[left,top]=[tile2%columns*wide,Math.floor(tile2/columns)*high],chroma=top/2*(width/2)+left/2,layout=[
{offset:top*width+left,stride:width},{offset:cb+chroma,stride:width/2},{offset:cr+chroma,stride:width/2}];if(frame.format===
"I420")await frame.copyTo(slot.buffer,{layout});else if(frame.format==="NV12")await apart(frame,slot.buffer,layout,wide,
high);else throw new Error(`its pixels are ${frame.format??"not to be had"}, and I420 or NV12 is wanted`)}look({colorSpace}){
let colour={matrix:colorSpace.matrix??"bt709",full:colorSpace.fullRange===!0},text2=JSON.stringify(colour);text2!==this.
colour&&(this.colour=text2,this.post({is:"colour",colour}))}conceal(slot,late){let going=this.going.get(slot.gop);if(!going||
going.grey==="yes"||!slot.tiles.includes(2))return this.settle(slot,!0);going.grey!=="asked"&&(late&&going.dropped>0?this.
settle(slot,!1):this.finish(slot))}finish(slot){if(slot.posted=now(),!(slot.wants===0||slot.has>0)){this.settle(slot,!1);
return}let buffer=slot.buffer??new ArrayBuffer(0);slot.buffer=null;let{number,tiles}=slot,going=this.going.get(slot.gop);
going?.grey==="no"&&tiles.includes(2)&&(going.grey="asked"),this.post({is:"picture",picture:{number,at:number*this.period,
buffer,tiles}},[buffer])}done(number,shown2,buffer){buffer.byteLength===this.planes.bytes&&this.pool.length<POOL&&this.pool.
push(buffer);let slot=this.slots.get(number);if(!slot)return;let going=this.going.get(slot.gop);going&&going.grey!=="yes"&&
slot.tiles.includes(2)&&(going.grey=shown2?"yes":"no"),this.settle(slot,shown2)}settle(slot,shown2){this.slots.delete(slot.
number);let going=this.going.get(slot.gop);if(!(!going||!this.manifest)){if(shown2){going.shown+=1;let due=this.clock.time(
slot.number*this.period);due!==null&&slot.posted!==null&&(going.lead=Math.min(going.lead,due-slot.posted));for(let[tile2,
qp]of going.qps.entries()){if(qp===null)continue;let counts=slot.tiles[tile2]===1?going.there:going.missed;counts[tile2]+=
1}}else going.dropped+=1;this.closeAll(this.manifest.pictures)}}closeAll(pictures){for(let oldest of this.going.values()){
if(oldest.shown+oldest.dropped<pictures)return;this.close(oldest)}}close(going){this.going.delete(going.gop);let late=going.
missed.filter(missed=>missed>0).length+going.broken,lead=Number.isFinite(going.lead)?going.lead:0,{gop,shown:shown2,dropped,
lateNetwork}=going,tiles=going.qps.map((qp,tile2)=>({had:going.had[tile2]??255,qp:qp!==null&&going.there[tile2]>0?qp:255,
missed:going.missed[tile2]}));this.report({gop,shown:shown2,dropped,lateNetwork,lateDecoding:late,lead,tiles});let{sums}=this;
sums.gops+=1,sums.shown+=shown2,sums.dropped+=dropped,sums.lateNetwork+=lateNetwork,sums.lateDecoding+=late,sums.lead=lead,
this.post({is:"figures",figures:{...sums,ahead:this.ahead()}}),late>0&&this.clock.slower()}listen(on){this.sound.turn(on),
this.tardy={gop:this.current,frames:0},on||this.clock.silent()}late(){this.tardy.gop!==this.current&&(this.tardy={gop:this.
current,frames:0}),this.tardy.frames+=1,this.tardy.frames===2&&this.clock.slower(!0)}stop(){this.held.clear(),this.holding.
clear(),this.bank.reset(),this.sound.stop(),this.slots.clear(),this.going.clear()}};async function apart(frame,into,layout,wide,high){
let from=new Uint8Array(frame.allocationSize()),[luma,chroma]=await frame.copyTo(from),to=new Uint8Array(into);for(let row=0;row<
high;row++){let at=luma.offset+row*luma.stride;to.set(from.subarray(at,at+wide),layout[0].offset+row*layout[0].stride)}for(let row=0;row<
high/2;row++)for(let column=0;column<wide/2;column++){let at=chroma.offset+row*chroma.stride+2*column;to[layout[1].offset+
row*layout[1].stride+column]=from[at],to[layout[2].offset+row*layout[2].stride+column]=from[at+1]}}var POSES=50,STEP=8,ASKING={first:100,times:10,later:500},SILENCE=1e4,AGAIN=1e3,PATIENCE=1e4,scope=globalThis,post=(message,transfer=[])=>scope.
postMessage(message,transfer),link=to=>post({is:"link",link:to}),socket=null,send=bytes=>{socket?.readyState===WebSocket.
OPEN&&socket.send(bytes)},clock=new Clock,engine=new Engine(clock,post,of=>send(shown(of))),head={yaw:0,pitch:0,roll:0},
heard=now(),asked=0,lastAsked=0,final=!1,hidden=!0,waiting;function take(bytes){heard=now();let message=decode(bytes);if(message)
switch(message.is){case"pong":{let{echo,position,moves,steers,viewers,dropped}=message.pong;position!==null&&moves&&clock.
pong(echo/1e3+performance.timeOrigin,position),post({is:"place",place:{steers,viewers,moves,dropped}});let begins=clock.
time(0);begins!==null&&post({is:"clock",begins,delay:clock.delay});return}case"sample":case"report":post({is:message.is,
text:message.text});return;case"refusal":final=!0,link({is:"refused",reason:message.reason});return;case"end":return;default:
if(engine.take(message),message.is==="begin"){let begins=clock.time(0);begins!==null&&post({is:"clock",begins,delay:clock.
delay})}}}function connect(){if(clearTimeout(waiting),socket)return;engine.stop(),link({is:"connecting"}),asked=0;let opening=new WebSocket(
`${location.origin.replace(/^http/,"ws")}/api/1/player`,"weftline-vr-1");opening.binaryType="arraybuffer",socket=opening;
let opened=!1;opening.onopen=()=>{socket===opening&&(opened=!0,heard=now(),link({is:"live"}))},opening.onmessage=({data})=>{
if(socket===opening)try{take(new Uint8Array(data))}catch(error){post({is:"trouble",text:String(error)})}},opening.onclose=
({code,reason})=>{if(socket===opening&&(socket=null,!final)){if(code===1e3&&opened){final=!0,link({is:"over"});return}again(
reason||(opened?"the connection broke off":""))}}}function leave(code,reason){let old=socket;socket=null,old?.close(code,
reason)}function hide(is){if(is!==hidden){if(hidden=is,final)return engine.stop();if(!is)return connect();clearTimeout(waiting),
leave(1e3,"hidden"),engine.stop()}}async function again(known){let reason=known;known&&link({is:"waiting",reason});try{let answer=await fetch(
"/api/1/room",{cache:"no-store",signal:AbortSignal.timeout(PATIENCE)});if(answer.status===401||answer.status===403){link(
{is:"refused",reason:(await answer.json()).error});return}answer.status===503&&(reason=(await answer.json()).error),reason||=
"the WebSocket cannot be opened; a proxy has to pass Upgrade and Connection on"}catch{reason||="the program does not ans\
wer; it may have ended"}hidden||socket||(link({is:"waiting",reason}),clearTimeout(waiting),waiting=setTimeout(connect,AGAIN))}
scope.onmessage=({data})=>{switch(data.is){case"pose":head={yaw:data.yaw,pitch:data.pitch,roll:data.roll},engine.turn(head);
break;case"done":engine.done(data.number,data.shown,data.buffer);break;case"hidden":hide(data.hidden);break;case"late":engine.
late();break;case"listen":engine.listen(data.on);break;case"steer":send(steer());break}};setInterval(()=>engine.step(),STEP);
setInterval(()=>{let at=now();if(!socket||socket.readyState!==WebSocket.OPEN)return;if(at-heard>SILENCE){leave(4e3,"sile\
nce"),again(`nothing has come for ${SILENCE/1e3} s`);return}let position=clock.position(at);position!==null&&send(poses(
[{at:position,...head}])),at-lastAsked>=(asked<ASKING.times?ASKING.first:ASKING.later)&&(lastAsked=at,asked+=1,send(ping(
Math.round(performance.now()*1e3))))},POSES);
